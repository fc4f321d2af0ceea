// A connection whose driver or deadlines find no memory.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <iterator>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "check/flight.hpp"
#include "link/connection_life.hpp"
#include "net/connection_driver.hpp"
#include "net/tls.hpp"
#include "pipeline_fixture.hpp"
#include "scarce_memory.hpp"

namespace {

using namespace std::chrono_literals;

/// A core that wants to be woken, and counts how often it was.
struct sleepy_core : detail::connection_states {
  using time = std::chrono::steady_clock::time_point;

  void on_time(time) {
    if (std::exchange(throws, false)) throw std::bad_alloc();
    is_asleep = false;
    ++times_woken;
  }
  void before_event(time) {}
  void attempting(error) {}
  void opened(error, time) {}
  void written(bool, std::size_t, time) {}
  actions next(time) { return {}; }
  std::span<char> room() { return {}; }
  bool has_actions() const { return is_asleep; }
  time wakeup() const { return time::max(); }
  state current() const { return state::ready; }
  detail::check_list take_done() { return {}; }
  bool has_done() const { return false; }
  bool is_closing() const { return false; }
  bool has_happenings() const { return false; }
  detail::link_history::happenings take_happenings() { return {}; }
  void note_failover() {}

  bool is_asleep = false, throws = false;
  int times_woken = 0;
};

struct driver_fixture {
  driver_fixture() { driver.make_stream(options, net::tls_context()); }

  // For the driver.
  std::shared_ptr<void> keep_alive() { return nullptr; }
  void deliver(detail::check_list&&) {}
  error before_open() { return {}; }
  void on_received(sleepy_core&, sleepy_core::time, error, std::size_t) {}
  bool has_news(const sleepy_core&) { return false; }
  void on_news(bool) {}
  void on_happening(const std::string&, detail::link_history::happening) {}

  void call(bool throws_when_woken = false) {
    driver.call([&](sleepy_core& core, sleepy_core::time) {
      core.is_asleep = true;
      core.throws = throws_when_woken;
    });
  }
  int times_woken() {
    int times = 0;
    driver.with_core([&](sleepy_core& core, sleepy_core::time) { times = core.times_woken; });
    return times;
  }

  asio::io_context io;
  redis_options options;
  net::connection_driver<driver_fixture, sleepy_core> driver{*this, io.get_executor(), true};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(driver_without_memory_suite)

// The driver took the wake-up for posted still, and posted no other.
BOOST_AUTO_TEST_CASE(an_event_that_throws_leaves_later_ones_their_wake_up) {
  driver_fixture f;
  f.call(true);
  BOOST_CHECK_THROW(f.io.poll(), std::bad_alloc);
  f.io.restart();
  f.call();
  f.io.poll();
  BOOST_TEST(f.times_woken() == 1);
}

// To post to a strand, Asio allocates twice: for the function, and to have the strand run. Here the
// first allocation fails. After a failure of the second one, Asio's strand runs nothing any more.
BOOST_AUTO_TEST_CASE(a_wake_up_that_finds_no_memory_is_posted_by_the_next_call) {
  driver_fixture f;
  bool has_thrown = false;
  // A thread of its own, which has kept no memory for what it posts.
  std::thread([&] { has_thrown = throws_with_failure(0, [&] { f.call(); }); }).join();
  BOOST_TEST(has_thrown);
  f.call();
  f.io.poll();
  BOOST_TEST(f.times_woken() == 1);
}

// The deadline's exception took all checks along that had expired with this one.
BOOST_AUTO_TEST_CASE(an_expired_reservation_without_memory_for_its_return_ends) {
  for_each_allocation([](long number) {
    redis::test::fixture f({.timeout = 10ms});
    f.line.connected();
    const auto& first = f.submit("a subject with a long name", 1, detail::check_kind::acquire);
    const auto& second = f.submit("b");
    f.write();
    f.now += 10ms;
    BOOST_TEST(!throws_with_failure(number, [&] { f.line.expire(f.now); }));
    f.line.take_done();
    BOOST_TEST(test::done_with(first, error::no_reply));
    BOOST_TEST(test::done_with(second, error::no_reply));
    // What gives the reservation back is all that is left.
    detail::check_list left = f.line.abandon();
    BOOST_TEST(std::distance(left.begin(), left.end()) == (has_failed ? 0 : 1));
    detail::discard(std::move(left));
  });
}

BOOST_AUTO_TEST_SUITE_END()
