#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <utility>

#include "redis/topology/sentinel_core.hpp"

/// A sentinel_core whose driver is the test, and what Sentinels say.
namespace weir::redis::test {

using namespace std::chrono_literals;

inline const std::string sentinel_hello = "%1\r\n+proto\r\n:3\r\n";
inline const std::string subscribed = ">3\r\n+subscribe\r\n+switch-master\r\n:1\r\n";
inline const std::string unknown_master = "_\r\n";

inline std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}
inline std::string address(const std::string& host, int port) {
  return "*2\r\n" + bulk(host) + bulk(std::to_string(port));
}
inline std::string switched(const std::string& master) {
  return ">3\r\n" + bulk("message") + bulk("+switch-master") +
         bulk(master + " 10.0.0.1 6379 10.0.0.2 6380");
}

inline redis_options three_sentinels() {
  redis_options o;
  o.sentinel.addresses = {{"s1", 26379}, {"s2", 26379}, {"s3", 26379}};
  return o;
}

/// Keeps what the core asked for, and reports what the test says became of it.
struct sentinel_driver {
  using state = sentinel_core::state;
  using moment = sentinel_core::time;

  explicit sentinel_driver(redis_options o = three_sentinels())
      : options(std::move(o)), core(options, 1) {}

  void pump() {
    for (;;) {
      const auto a = core.next(now);
      if (a.close) {
        BOOST_TEST_REQUIRE((a.open == nullptr && !a.read && a.write.empty()));
        ++closes;
        if (closes_at_once) settle();
      }
      if (a.open != nullptr) {
        BOOST_TEST_REQUIRE((!opening && !reading && writing.empty()));
        opening = true;
        ++opens;
        host = a.open->host;
      }
      if (a.read) {
        BOOST_TEST_REQUIRE(!reading);
        reading = true;
        core.room();
      }
      if (!a.write.empty()) {
        BOOST_TEST_REQUIRE(writing.empty());
        writing = a.write;
      }
      if (auto found = core.take_answer()) answer = std::move(found);
      if (core.take_moved()) ++moves;
      if (!a.close && a.open == nullptr && !a.read && a.write.empty()) return;
    }
  }
  /// After a close, what is under way comes back.
  void settle() {
    if (opening) opened(error::host_unreachable);
    if (!writing.empty()) written(false);
    if (reading) received_nothing();
  }
  void ask(bool elsewhere = false) {
    answer.reset();
    core.ask(elsewhere, now);
    pump();
  }
  void opened(error e) {
    BOOST_TEST_REQUIRE(opening);
    opening = false;
    core.opened(e, now);
    pump();
  }
  void written(bool ok = true) {
    BOOST_TEST_REQUIRE(!writing.empty());
    writing.clear();
    core.written(ok, now);
    pump();
  }
  void received(const std::string& bytes) {
    BOOST_TEST_REQUIRE(reading);
    const auto room = core.room();
    BOOST_TEST_REQUIRE(bytes.size() <= room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    reading = false;
    core.received(true, bytes.size(), now);
    pump();
  }
  void received_nothing() {
    BOOST_TEST_REQUIRE(reading);
    reading = false;
    core.received(false, 0, now);
    pump();
  }
  void wait() {
    BOOST_TEST_REQUIRE((core.wakeup() != moment::max()));
    now = std::max(now, core.wakeup());
    core.on_time(now);
    pump();
  }
  /// Asks and gets an answer from the Sentinel that is asked first.
  void watch() {
    ask();
    opened(error{});
    written();
    received(sentinel_hello + subscribed + address("10.0.0.1", 6379));
    BOOST_TEST_REQUIRE((core.current() == state::watching));
  }
  bool was_told(const std::string& expected_host, int port) const {
    return answer && answer->failure == error{} && answer->host == expected_host &&
           answer->port == port;
  }

  redis_options options;
  sentinel_core core;
  moment now{1h};
  bool opening = false, reading = false, closes_at_once = true;
  std::string writing, host;
  std::optional<sentinel_core::answer> answer;
  int opens = 0, closes = 0, moves = 0;
};

}  // namespace weir::redis::test
