#pragma once

// Every call of the library, on every path through the scripts.
#include <cstring>

#include "check/store_backend.hpp"
#include "support/leases.hpp"
#include "support/stores.hpp"

namespace weir::test {

using namespace std::chrono_literals;
namespace asio = boost::asio;

/// Makes every call, and tells what each of them ended with.
struct every_call {
  asio::io_context& io;
  redis_client& admin;  ///< may run all commands
  int database = 0;     ///< of the store
  /// The server knows this command only with .x behind its name.
  std::string renamed = {};

  /// Runs an admin's command in the store's database.
  template <class... Args>
  reply must(std::string_view command, const Args&... args) {
    const auto run = [this](std::string_view name, const auto&... more) {
      return admin.must(std::string(name) + (name == renamed ? ".x" : ""), more...);
    };
    if (database != 0) run("SELECT", database);
    reply r = run(command, args...);
    if (database != 0) run("SELECT", 0);
    return r;
  }

  void pass_through_gates(const weir::store& s, std::vector<weir::error_code>& told) {
    // One lease has lapsed, and one was given while the clock was ahead.
    const std::string key = std::string(s.backend()->key_prefix()) + ":{gate:a}:c";
    const auto ahead = std::chrono::system_clock::now().time_since_epoch() + 2h;
    must("ZADD", key, 1, "1:2:3");
    must("ZADD", key, std::chrono::floor<std::chrono::microseconds>(ahead).count(), "1:3:60000000");
    const weir::concurrency_limiter longer(s, "gate", {.limit = 4, .lease_duration = 1h});
    const weir::concurrency_limiter gate(s, "gate", {.limit = 3, .lease_duration = 1min});
    const weir::lease held = enter(io, longer, "a", told.emplace_back());
    for (int i = 0; i < 2; ++i) {  // and given back, without a caller that waits
      enter(io, gate, "a", told.emplace_back()).release();
    }
    const weir::lease second = enter(io, gate, "a", told.emplace_back());
    enter(io, gate, "a", told.emplace_back()).release();  // full
    crowd c;
    gate.fetch("a", {}, c.caller());
    run_until_complete(io, c);
    told.push_back(c[0].ec);
  }

  /// Turns, one of them given back, and decisions that are settled.
  void settle(const weir::store& s, const weir::policy& policy, const std::string& name,
              std::vector<weir::error_code>& told) {
    const weir::limiter l(s, name, policy);
    const auto ask = [&](auto&& start) {
      crowd c;
      start(c.caller());
      run_until_complete(io, c);
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
    run_until_complete(io, third);
    ask([&](auto caller) { l.fetch("b", caller); });
  }

  /// Moves the oldest entry of a log 25 hours back, as if the others had come so much later.
  void age_oldest_entry(const std::string& key) {
    constexpr double day_and_an_hour = 25 * 3600e6;
    const auto move_back = [&](const char* index, std::size_t at) {
      std::string element = must("LINDEX", key, index).text;
      double time = 0;
      if (element.size() < at + sizeof time) return;  // nothing was counted
      std::memcpy(&time, element.data() + at, sizeof time);
      time -= day_and_an_hour;
      std::memcpy(element.data() + at, &time, sizeof time);
      must("LSET", key, index, element);
    };
    move_back("0", 2 * sizeof(double));  // when the oldest entry leaves, counted from its time
    move_back("1", 0);
  }

  /// Everything weir sends. Nothing is in the database or among the scripts before.
  std::vector<weir::error_code> make(const weir::store& s) {
    must("FLUSHALL");
    must("SCRIPT", "FLUSH");
    const std::string prefix(s.backend()->key_prefix());
    auto policies = slow_policies(2);
    policies.push_back({"counting fixed_window",
                        weir::fixed_window{.limit = 1, .window = 24h, .count_refused = true}});
    policies.push_back({"counting sliding_window",
                        weir::sliding_window{.limit = 1, .window = 24h, .count_refused = true}});
    policies.push_back({"counting sliding_log",
                        weir::sliding_log{.limit = 1, .window = 24h, .count_refused = true}});
    std::vector<weir::error_code> told;
    const auto finish = [&](crowd& c) {
      run_until_complete(io, c);
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
    for (const auto& [name, policy] : slow_policies(2)) settle(s, policy, name, told);
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

}  // namespace weir::test
