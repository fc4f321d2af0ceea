#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "policy/kernel.hpp"
#include "redis/script/record_reply.hpp"
#include "redis/script/scripts.hpp"
#include "support/redis_server.hpp"
#include "support/script_harness.hpp"

namespace weir::model {

/// One policy's own script, under a clock of the test's own or the server's.
class own_script {
 public:
  own_script(test::redis_client& client, const policy& p)
      : client_(client),
        kernel_(policies::compile(p)),
        harness_(client, redis::scripts()[redis::script_for(kernel_)].text) {}

  /// What becomes of the last check of each key; empty if it holds something else.
  std::vector<std::optional<decision>> record(const std::vector<std::string>& keys,
                                              std::int64_t now,
                                              std::vector<std::int64_t> counts = {},
                                              std::int64_t cost = 1) {
    harness_.set_clock(now);
    return std::visit(
        [&]<class Kernel>(const Kernel& kernel) {
          const auto constants = redis::record_arguments(kernel, cost);
          harness_.send_run(keys, constants, counts);
          counts.resize(keys.size(), 1);
          std::vector<std::int64_t> numbers(1 + keys.size() * Kernel::reply_width);
          const redis::reply_view& reply = client_.read_view();
          if (!redis::read_found(kernel, reply, numbers)) {
            throw std::runtime_error("the script answers " + std::string(reply.root().text));
          }
          std::vector<std::optional<decision>> answers(keys.size());
          std::span<const std::int64_t> fields(numbers);
          fields = fields.subspan(1);
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
  decision record(std::int64_t now, std::int64_t cost = 1) {
    return record({"k"}, now, {}, cost).front().value();
  }
  decision fetch(std::int64_t now) { return record({"k"}, now, {0}).front().value(); }

  policies::script_arguments constants(std::int64_t cost = 1) const {
    return std::visit([&](const auto& k) { return redis::record_arguments(k, cost); }, kernel_);
  }
  const std::string& sha() const { return redis::scripts()[redis::script_for(kernel_)].sha; }
  const std::string& text() const { return redis::scripts()[redis::script_for(kernel_)].text; }

 private:
  test::redis_client& client_;
  policies::kernel kernel_;
  test::script_harness harness_;
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
    const auto constants = script.constants(cost);
    writer.begin(3 + keys.size() + constants.count());
    writer.arg("EVALSHA").arg(script.sha()).arg(static_cast<std::int64_t>(keys.size()));
    for (const std::string& key : keys) writer.arg(key);
    constants.each([&](const auto& argument) { writer.arg(argument); });
  }
};

}  // namespace weir::model
