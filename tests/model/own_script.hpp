#pragma once

#include <sstream>
#include <variant>

#include "model/joint_scripts.hpp"
#include "policy/kernel.hpp"
#include "support/redis_server.hpp"
#include "support/test.hpp"

namespace weir::model {

/// One policy's own script, under a clock of the test's own or the server's.
class own_script {
 public:
  own_script(test::redis_client& client, const policy& p)
      : client_(client), kernel_(policies::compile(p)), scripts_(client) {}

  /// What becomes of the last check of each key; empty if it holds something else.
  std::vector<std::optional<decision>> record(const std::vector<std::string>& keys,
                                              std::int64_t now,
                                              std::vector<std::int64_t> counts = {},
                                              std::int64_t cost = 1) {
    const redis::call_tier tiers[] = {{kernel_, cost}};
    scripts_.set_clock(now);
    const auto numbers = scripts_.run(tiers, keys, counts, false);
    counts.resize(keys.size(), 1);
    return std::visit(
        [&]<class Kernel>(const Kernel& kernel) {
          std::vector<std::optional<decision>> answers(keys.size());
          auto fields = std::span(numbers).subspan(1);
          for (std::size_t i = 0; i < keys.size();
               ++i, fields = fields.subspan(Kernel::reply_width)) {
            typename Kernel::replay state;
            if (!Kernel::restore(fields.first(Kernel::reply_width), state)) continue;
            if (counts[i] == 0) answers[i] = kernel.fetch(state, now, cost);
            for (std::int64_t n = 0; n < counts[i]; ++n) {
              answers[i] = kernel.record(state, now, cost);
            }
          }
          return answers;
        },
        kernel_);
  }
  /// So many checks of each key. As the client does: counts of 1 are left out.
  std::vector<std::optional<decision>> check(const std::vector<std::string>& keys, std::int64_t now,
                                             std::int64_t count, std::int64_t cost = 1) {
    return record(keys, now, std::vector<std::int64_t>(count == 1 ? 0 : keys.size(), count), cost);
  }
  decision record(std::int64_t now, std::int64_t cost = 1) {
    return record({"k"}, now, {}, cost).front().value();
  }
  decision fetch(std::int64_t now, std::int64_t cost = 1) {
    return record({"k"}, now, {0}, cost).front().value();
  }
  /// One request in each microsecond from `from` to before `to`. The answers are dropped.
  void fill(std::int64_t from, std::int64_t to) {
    const redis::call_tier tiers[] = {{kernel_, 1}};
    const std::string keys[] = {"k"};
    scripts_.harness_of(list());  // loads it: below, replies are due
    for (std::int64_t sent = from, read = from; read < to; ++read) {
      for (; sent < std::min(read + 500, to); ++sent) {
        scripts_.send_clock(sent);
        scripts_.send(tiers, keys, {}, false, false);
      }
      for (int replies = 0; replies < 2; ++replies) {
        const test::reply r = client_.read();
        if (r.is_error()) throw std::runtime_error(r.text);
      }
    }
  }
  std::optional<std::int64_t> requested_ttl(const std::string& key) {
    return scripts_.requested_ttl(key);
  }
  void forget_ttl(const std::string& key) { scripts_.forget_ttl(key); }

  /// The argument of the production script.
  std::string argument(std::int64_t cost = 1) const {
    const redis::call_tier tiers[] = {{kernel_, cost}};
    std::string packed;
    redis::pack_argument(packed, tiers, list().has_common_path, false, -1);
    return packed;
  }
  redis::script script() const { return redis::make_script(list()); }
  std::string text() const { return script().text; }

 private:
  redis::kernel_list list() const {
    const redis::call_tier tiers[] = {{kernel_, 1}};
    return joint_scripts::list_of(tiers, false);
  }

  test::redis_client& client_;
  policies::kernel kernel_;
  joint_scripts scripts_;
};

/// A server, and what its commands were.
struct script_fixture {
  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};

  std::int64_t ttl_end(const std::string& key) {
    BOOST_TEST(client.must("PTTL", key).integer > 0);
    const test::reply end = client.must("HGET", "test:ttl", key);
    BOOST_TEST_REQUIRE(!end.is_null());
    return std::stoll(end.text);
  }

  std::string dump(const std::string& key) {
    const test::reply r = client.must("DUMP", key);
    return r.is_null() ? "" : r.text;
  }

  /// How often each command has run since the last call of this.
  std::map<std::string, int> commands() {
    std::istringstream lines(client.must("INFO", "commandstats").text);
    client.must("CONFIG", "RESETSTAT");
    std::map<std::string, int> counts;
    for (std::string line; std::getline(lines, line);) {
      const auto name = line.find("cmdstat_");
      const auto calls = line.find(":calls=");
      if (name == line.npos || calls == line.npos) continue;
      counts[line.substr(8, calls - 8)] = std::stoi(line.substr(calls + 7));
    }
    for (const char* own : {"info", "config|resetstat", "config", "evalsha", "time"}) {
      counts.erase(own);
    }
    return counts;
  }

  /// The production script, under the server's clock; the reply is not looked at.
  void call(own_script& script, const std::vector<std::string>& keys) {
    send(script, keys);
    const test::reply r = client.read();
    BOOST_TEST_REQUIRE(!r.is_error(), r.text);
  }
  void send(own_script& script, const std::vector<std::string>& keys, std::int64_t cost = 1) {
    auto writer = client.writer();
    writer.begin(4 + keys.size());
    writer.arg("EVALSHA").arg(script.script().sha).arg(static_cast<std::int64_t>(keys.size()));
    for (const std::string& key : keys) writer.arg(key);
    writer.arg(script.argument(cost));
  }
};

}  // namespace weir::model
