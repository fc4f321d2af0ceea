// The agenda of entries by their times, and the alarm for the first of them.
#include "base/agenda.hpp"

#include "base/alarm.hpp"
#include "support/run.hpp"

namespace agenda_test {

using weir::detail::agenda;
using weir::detail::agenda_entry;
using weir::detail::alarm;
using time_type = alarm::time;
using std::chrono::hours;

constexpr time_type never = time_type::max();

struct entry : agenda_entry {
  explicit entry(int n) : number(n) {}
  int number;
};

time_type at(int hour) { return time_type(hours(hour)); }

/// Takes the entries out in the order of the agenda.
std::vector<int> numbers_due(agenda<entry>& all, time_type now) {
  std::vector<int> found;
  while (entry* e = all.first_due(now)) {
    found.push_back(e->number);
    all.put(*e, never);
  }
  return found;
}

struct alarm_fixture {
  void start(const boost::asio::any_io_executor& executor) {
    bell.start(executor, [this] {
      ++registrations;
      return may_register;
    });
  }
  void set(time_type when) {
    bell.set(when, [this] {
      ++rings;
      bell.rang();
      bell.set(again, [this] { ++rings; });
    });
  }

  boost::asio::io_context io;
  alarm bell;
  int registrations = 0, rings = 0;
  bool may_register = true;
  time_type again = never;
};

const auto past = std::chrono::steady_clock::now();
const auto tomorrow = past + hours(24);

BOOST_AUTO_TEST_SUITE(agenda_suite)

BOOST_AUTO_TEST_CASE(entries_come_by_their_times_and_equal_ones_in_the_order_of_put) {
  agenda<entry> all;
  entry one(1), two(2), three(3), four(4);
  BOOST_TEST((all.next() == never));
  BOOST_TEST(all.first_due(never) == nullptr);
  all.put(one, at(5));
  all.put(two, at(3));
  all.put(three, at(3));
  all.put(four, at(9));
  all.put(one, at(3));
  BOOST_TEST((all.next() == at(3)));
  BOOST_TEST(all.first_due(at(2)) == nullptr);
  BOOST_TEST((numbers_due(all, at(8)) == std::vector{2, 3, 1}));
  BOOST_TEST((all.next() == at(9)));
}

BOOST_AUTO_TEST_CASE(an_entry_that_is_destroyed_leaves_its_agenda) {
  agenda<entry> all;
  entry stays(1);
  all.put(stays, at(2));
  {
    entry goes(2);
    all.put(goes, at(1));
  }
  BOOST_TEST((all.next() == at(2)));
  BOOST_TEST((numbers_due(all, never) == std::vector{1}));
}

BOOST_FIXTURE_TEST_CASE(the_alarm_rings_at_the_earliest_time_and_can_be_set_again, alarm_fixture) {
  start(io.get_executor());
  start(io.get_executor());
  BOOST_TEST(registrations == 1);
  set(tomorrow);
  set(past);
  set(tomorrow);
  again = past;
  weir::test::run_out(io);
  BOOST_TEST(rings == 2);
}

// A timer that went on kept run() from returning.
BOOST_FIXTURE_TEST_CASE(an_alarm_without_a_time_lets_run_return, alarm_fixture) {
  start(io.get_executor());
  set(tomorrow);
  set(never);
  weir::test::run_out(io);
  BOOST_TEST(rings == 0);
  set(past);
  weir::test::run_out(io);
  BOOST_TEST(rings == 1);
}

BOOST_FIXTURE_TEST_CASE(a_stopped_alarm_never_rings, alarm_fixture) {
  start(io.get_executor());
  set(tomorrow);
  bell.stop();
  start(io.get_executor());
  BOOST_TEST(registrations == 1);
  set(past);
  weir::test::run_out(io);
  BOOST_TEST(rings == 0);
}

BOOST_FIXTURE_TEST_CASE(an_alarm_without_an_executor_is_stopped, alarm_fixture) {
  start({});
  BOOST_TEST(bell.is_stopped());
  start(io.get_executor());
  BOOST_TEST(registrations == 0);
}

BOOST_FIXTURE_TEST_CASE(an_alarm_whose_owner_was_not_registered_is_stopped, alarm_fixture) {
  may_register = false;
  start(io.get_executor());
  BOOST_TEST(bell.is_stopped());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace agenda_test
