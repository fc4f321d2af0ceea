#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "redis/connection_core.hpp"
#include "support/fake_check.hpp"
#include "window_reply.hpp"
#include "wire.hpp"

namespace weir::redis::test {

using namespace std::chrono_literals;
using weir::test::fake_check;
using weir::test::moment;
using state = connection_core::state;

inline const std::string hello_replies = "%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n";

/// To SCRIPT EXISTS: the server has them all, or has none.
inline std::string exists_reply(int each) {
  std::string all = "*" + std::to_string(scripts().size()) + "\r\n";
  for (std::size_t i = 0; i < scripts().size(); ++i) all += ":" + std::to_string(each) + "\r\n";
  return all;
}
inline std::string script_replies() { return exists_reply(1); }

inline const std::string one_admitted = window_reply({{}});

/// A connection_core whose driver is the test.
struct driver : weir::test::wire_of<connection_core, redis_options> {
  explicit driver(redis_options o = {})
      : wire_of(nullptr, std::move(o), 1, coalescer::max_keys_per_write) {
    wake();
  }
  ~driver() override { core.abandon().clear(); }

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

  weir::test::core_ptr limiter = weir::test::make_core("r",
                                                       fixed_window{.limit = 3, .window = 10s});
  std::deque<fake_check> checks;
};

}  // namespace weir::redis::test
