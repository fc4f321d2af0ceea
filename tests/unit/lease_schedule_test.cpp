// When leases are renewed and when they are lost, by a clock of the test's own.
#include "limiter/lease_schedule.hpp"

#include "support/test.hpp"

namespace lease_schedule_test {

using namespace std::chrono_literals;
using weir::detail::lease_schedule;
using weir::detail::short_text;
using outcome = lease_schedule::outcome;
using standing = lease_schedule::standing;

struct fixture {
  const lease_schedule::time t0 = lease_schedule::time() + 1h;
  lease_schedule book{30s};

  void add(std::int64_t lease, std::chrono::microseconds sent = 0us) {
    book.add(lease, short_text("a"), t0 + sent);
  }
  /// What is due then: numbers to renew, and lost ones negative.
  std::vector<std::int64_t> due(std::chrono::microseconds at) {
    std::vector<std::int64_t> all;
    while (const auto* e = book.next(t0 + at)) {
      all.push_back(e->stands == lease_schedule::standing::lost ? -e->lease : e->lease);
    }
    return all;
  }
  /// For another reason than a lost connection. True if it is to be repeated at once.
  bool fails(lease_schedule::open_leave leave, std::chrono::microseconds at) {
    return book.leave_failed(std::move(leave), false, t0 + at).has_value();
  }
  bool wakes_at(std::chrono::microseconds at) const { return book.wakeup() == t0 + at; }
  bool sleeps() const { return book.wakeup() == lease_schedule::time::max(); }
  using events = std::vector<std::int64_t>;
};

BOOST_FIXTURE_TEST_SUITE(lease_schedule_suite, fixture)

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_at_a_third_of_its_time_counted_from_its_sending) {
  BOOST_TEST(sleeps());
  add(7, 2s);
  BOOST_TEST(wakes_at(12s));
  BOOST_TEST((due(12s - 1us) == events{}));
  BOOST_TEST((due(12s) == events{7}));
  BOOST_TEST((due(12s) == events{}));
  BOOST_TEST(!book.answered(7, outcome::kept, t0 + 12s, t0 + 13s));
  BOOST_TEST(wakes_at(22s));
  BOOST_TEST((due(25s) == events{7}));  // late
  BOOST_TEST(!book.answered(7, outcome::kept, t0 + 26s, t0 + 27s));
  BOOST_TEST(wakes_at(36s));
}

BOOST_AUTO_TEST_CASE(a_failed_renewal_is_tried_again_until_the_time_is_over) {
  add(7);
  BOOST_TEST((due(10s) == events{7}));
  BOOST_TEST(!book.answered(7, outcome::unclear, t0 + 10s, t0 + 20s));
  BOOST_TEST(wakes_at(23s));
  BOOST_TEST((due(23s) == events{7}));
  BOOST_TEST(!book.answered(7, outcome::unclear, t0 + 23s, t0 + 23s));
  BOOST_TEST(wakes_at(26s));
  BOOST_TEST((due(26s) == events{7}));
  BOOST_TEST(!book.answered(7, outcome::unclear, t0 + 26s, t0 + 29s));
  BOOST_TEST(wakes_at(30s));
  BOOST_TEST((due(30s - 1us) == events{}));
  BOOST_TEST((book.find(7)->stands == standing::held));
  BOOST_TEST((due(30s) == events{-7}));
  BOOST_TEST((book.find(7)->stands == standing::lost));
  BOOST_TEST(sleeps());
}

BOOST_AUTO_TEST_CASE(one_that_succeeds_in_the_end_counts_from_its_own_sending) {
  add(7);
  due(10s);
  book.answered(7, outcome::unclear, t0 + 10s, t0 + 20s);
  due(23s);
  book.answered(7, outcome::kept, t0 + 23s, t0 + 29s);
  BOOST_TEST(wakes_at(33s));
  due(33s);
  BOOST_TEST(wakes_at(53s));  // the renewal under way may never be answered
  BOOST_TEST((due(53s) == events{-7}));
}

BOOST_AUTO_TEST_CASE(what_is_lost_stays_lost) {
  add(7);
  due(10s);
  BOOST_TEST((due(30s) == events{-7}));
  BOOST_TEST(!book.answered(7, outcome::kept, t0 + 29s, t0 + 31s));
  BOOST_TEST((book.find(7)->stands == standing::lost));
  BOOST_TEST(!book.answered(7, outcome::unclear, t0 + 29s, t0 + 31s));
  BOOST_TEST(sleeps());
  BOOST_TEST(!book.answered(7, outcome::gone, t0 + 29s, t0 + 31s));  // no news
  BOOST_TEST((book.find(7)->stands == standing::gone));
}

BOOST_AUTO_TEST_CASE(what_the_store_does_not_know_is_lost_at_once) {
  add(7);
  due(10s);
  BOOST_TEST(book.answered(7, outcome::gone, t0 + 10s, t0 + 11s));
  BOOST_TEST((book.find(7)->stands == standing::gone));
  BOOST_TEST(sleeps());
  BOOST_TEST((due(1h) == events{}));
}

BOOST_AUTO_TEST_CASE(an_answer_that_took_longer_than_the_lease_is_lost_when_it_comes) {
  add(7, -31s);
  BOOST_TEST((due(0s) == events{-7}));
  // The same of a renewal: a process that was stopped meanwhile.
  add(8);
  due(10s);
  book.answered(8, outcome::kept, t0 + 10s, t0 + 50s);
  BOOST_TEST((due(50s) == events{-8}));
}

BOOST_AUTO_TEST_CASE(a_lease_that_was_given_back_is_forgotten) {
  add(7);
  add(8, 1s);
  due(10s);
  BOOST_TEST((book.remove(7)->subject.view() == "a"));
  BOOST_TEST(!book.remove(7).has_value());
  BOOST_TEST(!book.answered(7, outcome::gone, t0 + 10s, t0 + 11s));
  BOOST_TEST(!book.answered(7, outcome::kept, t0 + 10s, t0 + 11s));
  BOOST_TEST(book.find(7) == nullptr);
  BOOST_TEST(wakes_at(11s));
  book.remove(8);
  BOOST_TEST(sleeps());
}

BOOST_AUTO_TEST_CASE(a_failed_leave_is_repeated_until_its_lease_has_lapsed) {
  BOOST_TEST(!fails({7, short_text("a"), t0 + 10s}, 0s));
  BOOST_TEST(wakes_at(3s));
  BOOST_TEST(!book.next_leave(t0 + 3s - 1us).has_value());
  const auto again = book.next_leave(t0 + 3s);
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->lease == 7);
  BOOST_TEST((again->subject.view() == "a"));
  BOOST_TEST((again->good_until == t0 + 10s));
  BOOST_TEST(sleeps());
  add(8, -4s);
  fails({7, short_text("a"), t0 + 10s}, 4s);
  BOOST_TEST(wakes_at(6s));
  BOOST_TEST((due(6s) == events{8}));
  BOOST_TEST(wakes_at(7s));
  BOOST_TEST(book.next_leave(t0 + 7s).has_value());
  fails({7, short_text("a"), t0 + 10s}, 7s);  // lapses when it would be due
  BOOST_TEST(wakes_at(26s));
}

BOOST_AUTO_TEST_CASE(a_leave_that_costs_one_connection_after_another_is_repeated_later) {
  lease_schedule::open_leave leave{7, short_text("a"), t0 + 10s};
  for (int i = 0; i < lease_schedule::most_losses; ++i) {
    auto again = book.leave_failed(leave, true, t0);
    BOOST_TEST_REQUIRE(again.has_value());
    BOOST_TEST(sleeps());
    leave = *std::move(again);
  }
  BOOST_TEST(!book.leave_failed(leave, true, t0).has_value());
  BOOST_TEST(wakes_at(3s));
  BOOST_TEST(!book.leave_failed({8, short_text("a"), t0}, true, t0).has_value());  // lapsed
}

BOOST_AUTO_TEST_CASE(the_leaves_that_wait_are_bounded) {
  for (std::size_t i = 0; i <= lease_schedule::most_leaves; ++i) {
    fails({static_cast<std::int64_t>(i), short_text("a"), t0 + 10s}, 0s);
  }
  std::size_t waited = 0;
  while (book.next_leave(t0 + 3s)) ++waited;
  BOOST_TEST(waited == lease_schedule::most_leaves);
}

BOOST_AUTO_TEST_CASE(many_are_due_in_their_order) {
  for (std::int64_t i = 1; i <= 100; ++i) add(i, std::chrono::seconds((i * 37) % 10));
  std::size_t renewed = 0;
  for (auto at = 0s; at < 20s; ++at) {
    for (const std::int64_t lease : due(at)) {
      ++renewed;
      BOOST_TEST(10 + (lease * 37) % 10 == at.count());
    }
  }
  BOOST_TEST(renewed == 100u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lease_schedule_test
