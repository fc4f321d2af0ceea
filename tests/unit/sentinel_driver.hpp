#pragma once

#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <utility>

#include "redis/topology/sentinel_core.hpp"
#include "wire.hpp"

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

struct sentinel_driver : weir::test::wire_of<sentinel_core, redis_options> {
  explicit sentinel_driver(redis_options o = three_sentinels())
      : wire_of(nullptr, std::move(o), 1) {}

  void ask(bool another = false) {
    answer.reset();
    core.ask(another, now);
    pump();
  }
  using wire_of::written;
  void written(bool ok = true) { wire_of::written(ok, 0); }
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

  std::optional<sentinel_core::answer> answer;
  int moves = 0;

 private:
  void collect() override {
    if (auto found = core.take_answer()) answer = std::move(found);
    if (core.take_moved()) ++moves;
  }
};

}  // namespace weir::redis::test
