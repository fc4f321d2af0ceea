// The server's clock is set back, by more than the policy looks back: what was used stays used, and
// no caller is kept out for longer than the policy's own length. (Small steps, within that length,
// are in properties_test.cpp.)
#include "model/kernel_subject.hpp"
#include "model/policy_shapes.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace set_back_clock_test {

using namespace weir;
using namespace weir::test;
using model::kernel_subject;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

/// How long it takes until nothing is in use, whatever was.
std::int64_t length_of(const policy& p) {
  std::int64_t length = model::span_of(p);
  if (std::holds_alternative<sliding_window>(p)) length *= 2;
  if (const auto* log = std::get_if<sliding_log>(&p)) length += log->resolution.count();
  return length;
}

/// Nothing is left afterwards.
void use_up(kernel_subject& subject, std::int64_t now) {
  for (std::int64_t left; (left = subject.fetch(now).remaining) > 0;) {
    BOOST_REQUIRE(subject.record(now, std::min(left, subject.ceiling())).allowed);
  }
}

template <class Policy, class Check>
void for_policies_of(std::uint32_t stream, Check& check) {
  test::random_source random(test::run_seed(), stream);
  for (int i = 0; i < 150; ++i) {
    const policy p = model::random_policy<Policy>(random);
    kernel_subject subject(p);
    // Twice: the state's own time, which decides, may lie one length before the last call.
    const std::int64_t least = 2 * length_of(p) + 1;
    if (subject.fetch(t0).limit == unlimited || least > t0 / 4) continue;
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << test::text_of(p)) {
      use_up(subject, t0);
      const std::int64_t most = std::min(t0 / 2, 20 * least + 3'600'000'000);
      check(p, subject, t0 - random.between(least, most));
    }
  }
}

template <class Check>
void for_policies(std::uint32_t stream, Check check) {
  for_policies_of<fixed_window>(stream, check);
  for_policies_of<sliding_log>(stream + 1, check);
  for_policies_of<sliding_window>(stream + 2, check);
  for_policies_of<token_bucket>(stream + 3, check);
  for_policies_of<gcra>(stream + 4, check);
  for_policies_of<leaky_bucket>(stream + 5, check);
}

BOOST_AUTO_TEST_SUITE(set_back_clock_suite)

BOOST_AUTO_TEST_CASE(what_was_used_stays_used) {
  for_policies(200, [](const policy&, kernel_subject& subject, std::int64_t earlier) {
    const decision looked = subject.fetch(earlier);
    const decision d = subject.record(earlier);
    BOOST_TEST((d.decided_at == looked.decided_at));
    BOOST_TEST(!looked.allowed);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.remaining == 0);
    BOOST_TEST(d.decided_at.time_since_epoch().count() == earlier);
  });
}

// An hour's step shut subjects of a window of a second out for that hour.
BOOST_AUTO_TEST_CASE(no_caller_is_kept_out_for_longer_than_the_policy_looks_back) {
  for_policies(210, [](const policy& p, kernel_subject& subject, std::int64_t earlier) {
    const decision d = subject.record(earlier);
    BOOST_TEST(d.retry_after.count() <= length_of(p));
    BOOST_TEST(d.reset_after.count() <= length_of(p));
    BOOST_TEST(!subject.fetch(earlier + d.retry_after.count() - 1).allowed);
    BOOST_TEST(subject.fetch(earlier + d.retry_after.count()).allowed);
    BOOST_TEST(subject.fetch(earlier + d.reset_after.count()).used == 0);
  });
}

// A caller of acquire was as far from its reservation each time, until the clock was where it had
// been.
BOOST_AUTO_TEST_CASE(a_reservation_that_is_refused_comes_nearer) {
  for_policies(220, [](const policy&, kernel_subject& subject, std::int64_t earlier) {
    const decision d = subject.acquire(earlier, 0);
    BOOST_TEST(!d.allowed);
    const std::int64_t half = earlier + d.retry_after.count() / 2;
    const decision later = subject.acquire(half, 0);
    BOOST_TEST((!later.allowed || half == earlier + d.retry_after.count()));
    BOOST_TEST(subject.acquire(earlier + d.retry_after.count(), 0).allowed);
  });
}

BOOST_AUTO_TEST_CASE(a_look_does_not_start_the_time_over_but_a_refused_record_does_so_once) {
  kernel_subject subject(token_bucket{.capacity = 10, .refill = per_second(10)});
  use_up(subject, t0);
  const std::int64_t hour_before = t0 - 3'600'000'000;
  BOOST_TEST(!subject.fetch(hour_before).allowed);
  BOOST_TEST(!subject.fetch(hour_before + 900'000).allowed);
  BOOST_TEST(!subject.record(hour_before + 900'000).allowed);
  BOOST_TEST(subject.record(hour_before + 1'000'000).allowed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace set_back_clock_test
