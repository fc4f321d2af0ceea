// A policy whose numbers change reads the state that the old ones left. (What each policy makes of
// it is in docs/policies.md; here: that it stays sane.)
#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "support/test.hpp"

namespace changed_policy_test {

using namespace weir;
using namespace weir::test;
using policies::any_state;
using policies::instant;

constexpr instant now = 1'790'000'000'123'456;

policies::sliding_window window_of(std::chrono::microseconds length) {
  return policies::sliding_window(sliding_window{.limit = 10, .window = length});
}

policies::kernel log_of(std::chrono::microseconds resolution) {
  return policies::sliding_log(sliding_log{.limit = 3, .window = 24h, .resolution = resolution});
}

/// Counts a request at its turn; when that is.
instant book(const policies::kernel& k, any_state& s, instant at, policies::units cost) {
  const policies::tier<any_state> one[] = {{&k, &s, cost}};
  const decision d = policies::reserve_all<any_state>(one, at,
                                                      std::chrono::microseconds(31 * 24h).count());
  BOOST_TEST(d.allowed);
  return (d.decided_at + d.delay).time_since_epoch().count();
}

BOOST_AUTO_TEST_SUITE(changed_policy_suite)

// The state held the window's number once: 1 s read as 60 s lay three thousand years ahead, and
// refused for ever.
BOOST_AUTO_TEST_CASE(a_sliding_window_of_another_length_reads_the_old_state_at_the_same_time) {
  for (const auto length : {1us, 1000us, 59999999us, 60'000'000us, 86'400'000'000us}) {
    policies::sliding_window::state s;
    for (int i = 0; i < 3; ++i) BOOST_TEST(window_of(1s).record(s, now, 1).allowed);
    const decision d = window_of(length).record(s, now, 1);
    BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
    BOOST_TEST(d.allowed);
    BOOST_TEST((d.reset_after <= 2 * length));
  }
}

BOOST_AUTO_TEST_CASE(a_longer_sliding_window_bears_smaller_counts_and_cuts_the_old_ones) {
  const auto day = window_of(24h);
  policies::sliding_window free(sliding_window{.limit = unlimited, .window = 1us});
  policies::sliding_window::state s;
  free.record(s, now, max_units);
  s.start = now - now % 86'400'000'000;
  const decision d = day.fetch(s, now, 1);
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.used == policies::sliding_window::most(86'400'000'000));
}

BOOST_AUTO_TEST_CASE(a_meter_reads_parts_of_another_rate) {
  const policies::meter thirds(3, 1'000'000, 10, false);
  const policies::meter wholes(1, 1'000'000, 10, false);
  policies::meter::state s;
  thirds.record(s, now, 1);
  BOOST_TEST(s.part > 0);
  const decision d = wholes.record(s, now, 1);
  BOOST_TEST(d.allowed);
  BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
}

// Parts that the new rate does not have were taken for microseconds: less than one of them, which
// lay ahead, took a million units of two million.
BOOST_AUTO_TEST_CASE(parts_that_the_new_rate_does_not_have_are_rounded_up) {
  const policies::meter finest(1'000'003, 1'000'000, 10, false);
  const policies::meter wholes(1, 1, 2'000'000, false);
  policies::meter::state s;
  finest.record(s, now, 1);
  BOOST_TEST(s.part == 1'000'000);
  BOOST_TEST(wholes.fetch(s, now, 1).remaining == 1'999'999);
  BOOST_TEST(wholes.fields(s, now)[0] == now + 1);
  BOOST_TEST(wholes.fields(s, now)[1] == 0);
  BOOST_TEST(wholes.record(s, now, 1).remaining == 1'999'998);
  BOOST_TEST(s.part == 0);
}

// The TAT of a slow rate lay days ahead, and kept the subject out of a fast one for as long.
BOOST_AUTO_TEST_CASE(a_bucket_made_faster_does_not_wait_for_the_old_tat) {
  const policies::meter slow(10, 86'400'000'000, 10, false);
  const policies::meter fast(1000, 1'000'000, 10, false);
  policies::meter::state s;
  BOOST_TEST(slow.record(s, now, 10).allowed);
  const decision d = fast.record(s, now, 1);
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.remaining == 0);
  BOOST_TEST((d.retry_after == 1ms));
  BOOST_TEST((d.reset_after == 10ms));
  BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
  BOOST_TEST(fast.record(s, now + 1000, 1).allowed);
}

BOOST_AUTO_TEST_CASE(a_bucket_made_larger_or_smaller_keeps_what_was_taken) {
  const policies::meter ten(10, 1'000'000, 10, false);
  const policies::meter twenty(10, 1'000'000, 20, false);
  const policies::meter seven(10, 1'000'000, 7, false);
  policies::meter::state s;
  BOOST_TEST(ten.record(s, now, 5).allowed);
  BOOST_TEST(twenty.fetch(s, now, 1).remaining == 15);
  BOOST_TEST(seven.fetch(s, now, 1).remaining == 2);
  BOOST_TEST(ten.record(s, now, 5).allowed);
  BOOST_TEST(seven.fetch(s, now, 1).remaining == 0);
}

// It moved a state that lay far ahead to now, where the script, with nothing to write, left it.
BOOST_AUTO_TEST_CASE(a_vendor_with_more_to_give_changes_nothing) {
  const policies::meter ten(10, 1'000'000, 10, false);
  policies::meter::state s;
  BOOST_TEST(ten.record(s, now, 10).allowed);
  const auto before = s;
  ten.lower(s, now - 3'600'000'000, 5);  // the clock was set back: the bucket counts as full
  BOOST_TEST((s == before));
  ten.lower(s, now, 5);
  BOOST_TEST((s == before));
  ten.lower(s, now + 1'000'000, 5);
  BOOST_TEST(ten.fetch(s, now + 1'000'000, 1).remaining == 5);
}

// Buckets of another width do not end where the old ones did: an entry could stand before an older
// one, in a log that is searched by halves.
BOOST_AUTO_TEST_CASE(a_log_of_another_resolution_books_on_and_never_too_many) {
  constexpr std::chrono::microseconds widths[] = {0us, 7min, 25min, 1h, 5h, 24h};
  constexpr instant minute = 60'000'000, day = 24 * 60 * minute;
  for (const auto from : widths) {
    for (const auto to : widths) {
      for (instant begin = now; begin < now + 5 * 60 * minute; begin += 11 * minute) {
        BOOST_TEST_CONTEXT(from.count() << " us to " << to.count() << " us, " << begin) {
          any_state s = policies::sliding_log::state();
          const auto before = log_of(from), after = log_of(to);
          std::vector<instant> turns;  // of each unit
          for (int i = 0; i < 17; ++i) {
            const bool changed = i >= 5 && i < 13;
            const int cost = 1 + (i * i + i / 3) % 3;
            const instant turn = book(changed ? after : before, s, begin + i * minute, cost);
            turns.insert(turns.end(), static_cast<std::size_t>(cost), turn);
          }
          BOOST_TEST(std::is_sorted(turns.begin(), turns.end()));
          for (std::size_t i = 3; i < turns.size(); ++i) {
            BOOST_TEST((turns[i] - turns[i - 3] >= day));
          }
        }
      }
    }
  }
}

// An entry of a finer resolution stood behind a later one, in a log that is searched by halves: the
// next check dropped both, and the coarser plan forgot what it had counted.
BOOST_AUTO_TEST_CASE(an_entry_of_a_finer_resolution_joins_a_newest_one_that_is_later) {
  const policies::kernel coarse = policies::sliding_log(
      sliding_log{.limit = 2, .window = 100s, .resolution = 10s});
  const policies::sliding_log fine(
      sliding_log{.limit = 100, .window = 60s, .resolution = 1us, .count_refused = true});
  any_state s = policies::sliding_log::state();
  auto& log = std::get<policies::sliding_log::state>(s);
  book(coarse, s, now, 2);
  const instant turn = book(coarse, s, now, 1);
  BOOST_TEST(turn > now);
  BOOST_TEST(!fine.record(log, now + 1, 1).allowed);  // counted at the last turn
  for (instant at = turn; at < turn + 10; ++at) BOOST_TEST(fine.record(log, at, 1).allowed);
  const instant later = turn + 65'000'000;  // the newest has not left either window
  BOOST_TEST(fine.record(log, later, 1).allowed);
  const decision d = std::get<policies::sliding_log>(coarse).fetch(log, later, 1);
  BOOST_TEST(d.used == 13);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace changed_policy_test
