// The ACL user of docs/security.md, read from there: it may do all that weir does, and no command
// of it is one too many.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check/store_backend.hpp"
#include "support/leases.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace acl_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::error;
using weir::test::crowd;
using weir::test::redis_client;
using weir::test::redis_server;
using words = std::vector<std::string>;

/// "ACL SETUSER ..." and the indented lines that go on with it, word by word.
words documented_command() {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/security.md");
  words found;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("    ")) {
      if (!found.empty()) break;
      continue;
    }
    std::istringstream text(line);
    if (found.empty() && line.find("ACL SETUSER") == std::string::npos) continue;
    for (std::string word; text >> word;) found.push_back(word);
  }
  return found;
}

struct fixture {
  asio::io_context io;
  redis_server server;
  redis_client admin{server};

  fixture() { BOOST_TEST_REQUIRE(documented_command().size() > 10u); }

  void set_user(const words& command) {
    admin.must("ACL", "DELUSER", command.at(2));
    auto writer = admin.writer();
    writer.begin(command.size());
    for (const std::string& word : command) writer.arg(word);
    const auto reply = admin.read();
    BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
  }

  void pass_through_gates(const weir::store& s, std::vector<weir::error_code>& told) {
    // One lease has lapsed, and one was given while the clock was ahead.
    const std::string key = std::string(s.backend()->key_prefix()) + ":{gate:a}:c";
    const auto ahead = std::chrono::system_clock::now().time_since_epoch() + 2h;
    admin.must("SELECT", 1);
    admin.must("ZADD", key, 1, "1:2:3");
    admin.must("ZADD", key, std::chrono::floor<std::chrono::microseconds>(ahead).count(),
               "1:3:60000000");
    admin.must("SELECT", 0);
    const weir::concurrency_limiter longer(s, "gate", {.limit = 4, .lease_duration = 1h});
    const weir::concurrency_limiter gate(s, "gate", {.limit = 3, .lease_duration = 1min});
    const weir::lease held = weir::test::enter(io, longer, "a", told.emplace_back());
    for (int i = 0; i < 2; ++i) {  // and given back, without a caller that waits
      weir::test::enter(io, gate, "a", told.emplace_back()).release();
    }
    const weir::lease second = weir::test::enter(io, gate, "a", told.emplace_back());
    weir::test::enter(io, gate, "a", told.emplace_back()).release();  // full
    crowd c;
    gate.fetch("a", {}, c.caller());
    weir::test::run_until_complete(io, c);
    told.push_back(c[0].ec);
  }

  /// Turns, one of them given back, and decisions that are settled.
  void settle(const weir::store& s, const weir::policy& policy, const std::string& name,
              std::vector<weir::error_code>& told) {
    const weir::limiter l(s, name, policy);
    const auto ask = [&](auto&& start) {
      crowd c;
      start(c.caller());
      weir::test::run_until_complete(io, c);
      told.push_back(c[0].ec);
      return c[0].d;
    };
    for (const std::int64_t actual : {0, 1, 2, 5}) {
      const weir::decision d = ask([&](auto caller) { l.record("b", {.cost = 2}, caller); });
      if (d.allowed) ask([&](auto caller) { l.settle("b", d, actual, caller); });
    }
    ask([&](auto caller) { l.reset("b", caller); });
    for (int i = 0; i < 2; ++i) ask([&](auto caller) { l.acquire("b", {.max_wait = 0s}, caller); });
    // The third leaves while it waits. Each fetch is answered when what went out before it has
    // been done.
    asio::cancellation_signal leave;
    crowd third;
    l.acquire("b", {.max_wait = 700h}, asio::bind_cancellation_slot(leave.slot(), third.caller()));
    ask([&](auto caller) { l.fetch("b", caller); });
    leave.emit(asio::cancellation_type::terminal);
    weir::test::run_until_complete(io, third);
    ask([&](auto caller) { l.fetch("b", caller); });
  }

  /// Moves the oldest entry of a log 25 hours back, as if the others had come so much later.
  void age_oldest_entry(const std::string& key) {
    constexpr double day_and_an_hour = 25 * 3600e6;
    admin.must("SELECT", "1");
    const auto move_back = [&](const char* index, std::size_t at) {
      std::string element = admin.must("LINDEX", key, index).text;
      double time = 0;
      if (element.size() < at + sizeof time) return;  // nothing was counted
      std::memcpy(&time, element.data() + at, sizeof time);
      time -= day_and_an_hour;
      std::memcpy(element.data() + at, &time, sizeof time);
      admin.must("LSET", key, index, element);
    };
    move_back("0", 2 * sizeof(double));  // when the oldest entry leaves, counted from its time
    move_back("1", 0);
    admin.must("SELECT", "0");
  }

  /// Everything weir sends, on every path through the scripts; what the calls ended with.
  std::vector<weir::error_code> do_everything(const words& command,
                                              const std::string& prefix = "weir") {
    admin.must("FLUSHALL");
    admin.must("SCRIPT", "FLUSH");
    auto options = weir::test::patient_options(server);
    options.username = command.at(2);
    options.password = "password";
    options.database = 1;
    options.key_prefix = prefix;
    const auto s = weir::make_redis_store(io.get_executor(), options);
    auto policies = weir::test::slow_policies(2);
    policies.push_back({"counting fixed_window",
                        weir::fixed_window{.limit = 1, .window = 24h, .count_refused = true}});
    policies.push_back({"counting sliding_window",
                        weir::sliding_window{.limit = 1, .window = 24h, .count_refused = true}});
    policies.push_back({"counting sliding_log",
                        weir::sliding_log{.limit = 1, .window = 24h, .count_refused = true}});
    std::vector<weir::error_code> told;
    const auto finish = [&](crowd& c) {
      weir::test::run_until_complete(io, c);
      for (const auto& o : c) told.push_back(o.ec);
    };
    for (const auto& [name, policy] : policies) {
      const weir::limiter l(s, name, policy);
      for (int i = 0; i < 4; ++i) {  // two of them refused, or more
        crowd c;
        l.record("a", c.caller());
        finish(c);
      }
      crowd c;
      l.fetch("a", c.caller());
      finish(c);
      crowd together;  // in one script call
      for (const char* subject : {"c", "d", "e"}) l.record(subject, together.caller());
      finish(together);
    }
    for (const auto& [name, policy] : weir::test::slow_policies(2)) settle(s, policy, name, told);
    // A log whose entries are all too old, for a shorter window on the same key.
    for (const auto window : {std::chrono::microseconds(24h), 1us}) {
      crowd c;
      weir::limiter(s, "log", weir::sliding_log{.limit = 5, .window = window})
          .record("a", c.caller());
      finish(c);
    }
    // A log out of which one entry leaves.
    const weir::limiter aged(s, "aged", weir::sliding_log{.limit = 5, .window = 24h});
    for (int i = 0; i < 3; ++i) {
      if (i == 2) age_oldest_entry(prefix + ":{aged:a}:l");
      crowd c;
      aged.record("a", c.caller());
      finish(c);
    }
    // A request is taken out of a log in which another came after it.
    const weir::limiter log(s, "refunds", weir::sliding_log{.limit = 5, .window = 24h});
    weir::decision first;
    for (int i = 0; i < 2; ++i) {
      crowd c;
      log.record("a", c.caller());
      finish(c);
      if (i == 0) first = c[0].d;
    }
    if (first.allowed) {
      crowd c;
      log.refund("a", first, c.caller());
      finish(c);
    }
    // Before its cool-down, and in it.
    const weir::limiter cools(s, "cools", policies[0].policy, {.cool_downs = true});
    for (int i = 0; i < 2; ++i) {
      crowd c;
      for (const char* subject : {"a", "b"}) cools.record(subject, c.caller());
      finish(c);
      crowd pause;
      cools.cool_down("a", 1h, pause.caller());
      finish(pause);
    }
    crowd c;
    weir::limiter(s, "gcra", policies[0].policy).reset("a", c.caller());
    finish(c);
    pass_through_gates(s, told);
    return told;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(acl_suite, fixture)

BOOST_AUTO_TEST_CASE(the_documented_user_may_do_everything) {
  const words command = documented_command();
  set_user(command);
  admin.must("ACL", "LOG", "RESET");
  for (const auto& ec : do_everything(command)) BOOST_TEST(!ec.failed(), ec.message());
  // The calls without a caller had all their commands, too. The log names CLIENT SETINFO,
  // without which the store works; before 7.2, CLIENT alone.
  for (const auto& entry : admin.must("ACL", "LOG").children) {
    const auto object = std::ranges::find(entry.children, "object", &weir::test::reply::text);
    BOOST_TEST_REQUIRE((object != entry.children.end()));
    const std::string& logged = std::next(object)->text;
    BOOST_TEST((logged == "client|setinfo" || logged == "client"), logged);
  }
  // The user reaches only its own keys.
  const auto elsewhere = do_everything(command, "other");
  for (const auto& ec : elsewhere) WEIR_TEST_ERROR(ec, error::permission_denied);
}

BOOST_AUTO_TEST_CASE(each_command_is_needed_and_missed_with_its_own_error) {
  const words command = documented_command();
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!command[i].starts_with('+')) continue;
    BOOST_TEST_CONTEXT("without " << command[i]) {
      words less = command;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      set_user(less);
      admin.must("ACL", "LOG", "RESET");
      const auto told = do_everything(less);
      const auto denied = std::ranges::count_if(
          told, [](const auto& ec) { return ec == error::permission_denied; });
      // If a call without a caller lacks a command, only the server's log tells.
      BOOST_TEST((denied > 0 || !admin.must("ACL", "LOG").children.empty()));
      for (const auto& ec : told) {
        BOOST_TEST((!ec || ec == error::permission_denied), ec.message());
        BOOST_TEST((!ec || ec == weir::condition::not_counted));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace acl_test
