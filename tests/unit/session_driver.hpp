#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "redis/connection_core.hpp"
#include "support/fake_check.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

using namespace std::chrono_literals;
using weir::test::fake_check;
using state = connection_core::state;
using moment = connection_core::time;

inline const std::string hello_replies = "%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n";

/// To SCRIPT EXISTS: the server has them all, or has none.
inline std::string exists_reply(int each) {
  std::string all = "*" + std::to_string(scripts().size()) + "\r\n";
  for (std::size_t i = 0; i < scripts().size(); ++i) all += ":" + std::to_string(each) + "\r\n";
  return all;
}
inline std::string script_replies() { return exists_reply(1); }

inline const std::string one_admitted = window_reply({{}});

/// Plays the driver: keeps what the core asked for, and reports what the test says became of it.
struct driver {
  explicit driver(redis_options o = {})
      : options(std::move(o)), core(options, 1, coalescer::max_keys_per_write) {
    core.on_time(now);
    pump();
  }
  ~driver() { core.abandon().clear(); }

  void close() {
    core.close(now);
    core.stop_when_idle();
    collect();
  }

  void pump() {
    for (;;) {
      const bool announced = core.has_actions();
      const auto a = core.next(now);
      BOOST_TEST_REQUIRE(announced == (a.open || a.close || !a.write.empty()));
      poll_until = a.poll_until;
      if (a.close) {
        closes++;
        BOOST_TEST_REQUIRE((!a.open && !a.read && a.write.empty()));
        // What is under way comes back, as with real sockets after close().
        if (opening) aborted_open = true;
      }
      if (a.open) {
        BOOST_TEST_REQUIRE((!opening && !reading && !writing));
        opening = true;
        elsewhere = a.elsewhere;
        opens++;
      }
      if (a.read) {
        BOOST_TEST_REQUIRE(!reading);
        reading = true;
        core.room();
      }
      if (!a.write.empty()) {
        BOOST_TEST_REQUIRE(!writing);
        copy.assign(a.write);
        writing = a.write;
      }
      collect();
      if (a.close && settles_at_once) settle_after_close();
      const bool has_none = !a.close && !a.open && !a.read && a.write.empty();
      if (has_none && !core.has_actions()) return;
    }
  }
  void collect() {
    auto done = core.take_done();
    while (!done.empty()) {
      auto& c = done.front();
      done.pop_front();
      c.finish(detail::delivery::dispatch);
    }
  }
  void settle_after_close() {
    if (opening) opened(error::host_unreachable);
    if (writing) written(false, 0);
    if (reading) received_nothing();
  }

  void opened(error e) {
    BOOST_TEST_REQUIRE(opening);
    opening = false;
    core.before_event(now);
    core.opened(e, now);
    pump();
  }
  void written(bool ok, std::size_t n) {
    BOOST_TEST_REQUIRE(writing.has_value());
    // The bytes belong to the core, and stay until they are written, whatever came in meanwhile.
    BOOST_TEST_REQUIRE((*writing == copy));
    writing.reset();
    core.before_event(now);
    core.written(ok, n, now);
    pump();
  }
  std::string write_succeeds() {
    BOOST_TEST_REQUIRE(writing.has_value());
    const std::string bytes(*writing);
    written(true, bytes.size());
    return bytes;
  }
  void received(std::string_view bytes) {
    BOOST_TEST_REQUIRE(reading);
    const auto room = core.room();
    BOOST_TEST_REQUIRE(bytes.size() <= room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    reading = false;
    core.before_event(now);
    core.received(true, bytes.size(), now);
    pump();
  }
  void received_nothing(error why = error::outcome_unknown) {
    BOOST_TEST_REQUIRE(reading);
    reading = false;
    core.before_event(now);
    core.received(false, 0, now, why);
    pump();
  }
  /// Lets the time pass until the core wants something.
  void wait() {
    BOOST_TEST_REQUIRE((core.wakeup() != moment::max()));
    now = std::max(now, core.wakeup());
    core.on_time(now);
    pump();
  }
  /// A caller wakes the strand.
  void wake() {
    core.on_time(now);
    pump();
  }
  /// The timer comes whenever the core wants it.
  void advance(std::chrono::nanoseconds d) {
    const moment end = now + d;
    while (core.wakeup() < end) wait();
    now = end;
    wake();
  }
  /// The process stands still, and its timer comes late.
  void stand_still(std::chrono::nanoseconds d) {
    now += d;
    wake();
  }
  /// The server answers the greeting, whose first part has been written.
  void greet_back() {
    received(hello_replies);
    write_succeeds();
    received(script_replies());
  }
  /// What a server says that is loading its data: HELLO it answers.
  void plead_loading() {
    received(hello_replies);
    write_succeeds();
    received("-LOADING wait\r\n");
  }
  void become_ready() {
    opened(error{});
    write_succeeds();
    greet_back();
    BOOST_TEST_REQUIRE((core.current() == state::ready));
  }
  fake_check& submit(std::string_view subject = "a", std::chrono::microseconds timeout = 10s) {
    return start(checks.emplace_back(limiter, subject, 1, detail::check_kind::record, timeout));
  }
  fake_check& start(fake_check& c) {
    core.submit(c, now);
    pump();
    return c;
  }

  redis_options options;
  weir::test::core_ptr limiter = weir::test::make_core("r",
                                                       fixed_window{.limit = 3, .window = 10s});
  std::deque<fake_check> checks;
  moment now = moment(1000h);
  connection_core core;
  bool opening = false;
  bool elsewhere = false;
  bool reading = false;
  bool aborted_open = false;
  bool settles_at_once = true;  // what is under way comes back within a close
  std::optional<std::string_view> writing;
  std::string copy;  // of what is written
  moment poll_until = moment::min();
  int opens = 0;
  int closes = 0;
};

}  // namespace weir::redis::test
