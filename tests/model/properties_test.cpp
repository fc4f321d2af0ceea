// What every policy promises, whatever its algorithm: checked on the kernels in C++, with random
// traffic.
#include "model/kernel_subject.hpp"
#include "model/policy_shapes.hpp"
#include "model/trace_clock.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace properties_test {

using namespace weir;
using namespace weir::test;
using model::kernel_subject;
using policies::wide;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

struct admission {
  std::int64_t at;
  std::int64_t cost;
};

/// One subject, and traffic that mostly presses against the limit.
class traffic {
 public:
  traffic(const policy& p, test::random_source& random, std::int64_t pace)
      : subject_(p), random_(random), pace_(std::max<std::int64_t>(1, pace)) {}

  kernel_subject& subject() { return subject_; }
  std::int64_t now() const { return now_; }

  std::int64_t next_cost() {
    const std::int64_t most = subject_.ceiling();
    return random_.one_in(3) ? random_.magnitude(most)
                             : std::max<std::int64_t>(1, most / random_.between(1, 9));
  }
  void wait() {
    if (!random_.one_in(3)) now_ += random_.between(0, pace_);
    if (random_.one_in(9)) now_ += random_.between(0, 9 * pace_);
  }
  void wait_until(std::int64_t t) { now_ = std::max(now_, t); }

  std::vector<admission> run(int checks) {
    std::vector<admission> admitted;
    for (int i = 0; i < checks; ++i) {
      wait();
      const std::int64_t cost = next_cost();
      const decision d = subject_.record(now_, cost);
      if (d.allowed) admitted.push_back({now_, cost});
      if (!d.allowed && random_.one_in(2)) wait_until(now_ + d.retry_after.count());
    }
    return admitted;
  }

 private:
  kernel_subject subject_;
  test::random_source& random_;
  std::int64_t pace_;
  std::int64_t now_ = t0;
};

struct shape {
  std::int64_t size;
  rate long_run;  // size per window, or the meter's rate
};

shape shape_of(const fixed_window& p) { return {p.limit, {p.limit, p.window}}; }
shape shape_of(const sliding_log& p) { return {p.limit, {p.limit, p.window}}; }
shape shape_of(const sliding_window& p) { return {p.limit, {p.limit, p.window}}; }
shape shape_of(const token_bucket& p) { return {p.capacity, p.refill}; }
shape shape_of(const gcra& p) { return {p.burst, p.rate}; }
shape shape_of(const leaky_bucket& p) { return {p.capacity, p.leak}; }

/// About the time in which a tenth of the limit is due.
template <class Policy>
std::int64_t pace_of(const Policy& p) {
  const shape s = shape_of(p);
  const wide filling = wide{s.size} * s.long_run.period.count() / s.long_run.count;
  return s.size == unlimited ? s.long_run.period.count() / 10
                             : static_cast<std::int64_t>(filling / 10);
}

/// Runs `check(policy, random)` on many random policies that do refuse; says which one when it
/// fails.
template <class Policy, class Check>
void for_random_policies(std::uint32_t stream, int times, Check check) {
  test::random_source random(test::run_seed(), stream);
  for (int i = 0; i < times; ++i) {
    const Policy p = model::random_policy<Policy>(random);
    if (shape_of(p).size == unlimited) continue;
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << test::text_of(policy(p))) {
      check(p, random);
    }
  }
}

template <class Check>
void for_all_policies(std::uint32_t stream, int times, Check check) {
  for_random_policies<fixed_window>(stream, times, check);
  for_random_policies<sliding_log>(stream + 1, times, check);
  for_random_policies<sliding_window>(stream + 2, times, check);
  for_random_policies<token_bucket>(stream + 3, times, check);
  for_random_policies<gcra>(stream + 4, times, check);
  for_random_policies<leaky_bucket>(stream + 5, times, check);
}

/// The largest sum of admissions in any half-open stretch of that length.
wide most_in_any(std::int64_t length, const std::vector<admission>& all) {
  wide most = 0, sum = 0;
  std::size_t oldest = 0;
  for (const admission& a : all) {
    sum += a.cost;
    for (; a.at - all[oldest].at >= length; ++oldest) sum -= all[oldest].cost;
    most = std::max(most, sum);
  }
  return most;
}

BOOST_AUTO_TEST_SUITE(properties_suite)

BOOST_AUTO_TEST_CASE(no_fixed_window_admits_more_than_its_limit) {
  for_random_policies<fixed_window>(10, 300, [](const fixed_window& p, auto& random) {
    const std::int64_t window = p.window.count();
    wide sum = 0;
    std::int64_t end = 0;
    for (const admission& a : traffic(p, random, pace_of(p)).run(200)) {
      if (a.at >= end) {
        const std::int64_t start = p.anchor == anchor::epoch
                                       ? a.at - (a.at - p.offset.count()) % window
                                       : a.at;
        end = start + window;
        sum = 0;
      }
      sum += a.cost;
      if (sum > p.limit) BOOST_ERROR("more than the limit at " << a.at);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_stretch_of_a_log_admits_more_than_its_limit_with_a_resolution_or_without) {
  for_random_policies<sliding_log>(20, 300, [](const sliding_log& p, auto& random) {
    const auto admitted = traffic(p, random, pace_of(p)).run(200);
    BOOST_TEST(!admitted.empty());
    BOOST_TEST((most_in_any(p.window.count(), admitted) <= p.limit));
  });
}

BOOST_AUTO_TEST_CASE(a_sliding_window_keeps_to_its_formula_at_every_admission) {
  for_random_policies<sliding_window>(30, 300, [](const sliding_window& p, auto& random) {
    if (p.count_refused) return;  // then its counters hold more than what was admitted
    const std::int64_t window = p.window.count();
    std::map<std::int64_t, wide> counts;
    const auto admitted = traffic(p, random, pace_of(p)).run(200);
    for (const admission& a : admitted) {
      const std::int64_t index = a.at / window;
      counts[index] += a.cost;
      if (counts[index - 1] * (window - a.at % window) + counts[index] * window >
          wide{p.limit} * window) {
        BOOST_ERROR("more than the formula at " << a.at);
      }
    }
    BOOST_TEST((most_in_any(window, admitted) < 2 * wide{p.limit}));
  });
}

template <class Policy>
void bounded_by_burst_and_rate(std::uint32_t stream) {
  for_random_policies<Policy>(stream, 300, [](const Policy& p, auto& random) {
    const auto [burst, r] = shape_of(p);
    const auto admitted = traffic(p, random, pace_of(p)).run(150);
    BOOST_TEST(!admitted.empty());
    for (std::size_t first = 0; first < admitted.size(); ++first) {
      wide sum = 0;
      for (std::size_t last = first; last < admitted.size(); ++last) {
        sum += admitted[last].cost;
        const wide earned = wide{admitted[last].at - admitted[first].at} * r.count;
        if (sum * r.period.count() > wide{burst} * r.period.count() + earned) {
          BOOST_ERROR("more than burst + rate * time from " << admitted[first].at);
          return;
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(no_stretch_admits_more_than_burst_and_rate_times_time) {
  bounded_by_burst_and_rate<token_bucket>(40);
  bounded_by_burst_and_rate<gcra>(41);
  bounded_by_burst_and_rate<leaky_bucket>(42);
}

BOOST_AUTO_TEST_CASE(a_bucket_never_loses_a_fraction_of_a_unit) {
  // One unit at a time, as soon as it is announced. The second unit of the burst keeps the bucket
  // from being full while the announced time is rounded up; so after an hour exactly what the rate
  // earns has passed.
  constexpr std::int64_t hour = 3'600'000'000;
  for (const rate& r : {rate{7, 3s}, rate{999'983, 24h}, rate{1'000'003, 1000s}, per_second(3)}) {
    kernel_subject subject(gcra{r, 2});
    std::int64_t passed = 0;
    for (std::int64_t now = t0; now <= t0 + hour;) {
      const decision d = subject.record(now);
      passed += d.allowed;
      if (!d.allowed) now += std::max<std::int64_t>(1, d.retry_after.count());
    }
    BOOST_TEST(passed == 2 + hour * r.count / r.period.count());
  }
}

BOOST_AUTO_TEST_CASE(refused_exactly_until_retry_after_and_then_allowed) {
  std::int64_t seen = 0;
  for_all_policies(50, 150, [&]<class Policy>(const Policy& p, test::random_source& random) {
    traffic t(p, random, pace_of(p));
    for (int i = 0; i < 60; ++i) {
      t.wait();
      const std::int64_t cost = t.next_cost();
      const decision d = t.subject().record(t.now(), cost);
      if (d.allowed) {
        BOOST_TEST(d.retry_after.count() == 0);
        continue;
      }
      ++seen;
      const std::int64_t turn = t.now() + d.retry_after.count();
      BOOST_TEST(d.retry_after.count() > 0);
      BOOST_TEST(!kernel_subject(t.subject()).record(turn - 1, cost).allowed);
      BOOST_TEST(!t.subject().fetch(turn - 1, cost).allowed);
      BOOST_TEST(t.subject().fetch(turn, cost).allowed);
      BOOST_TEST(kernel_subject(t.subject()).record(turn, cost).allowed);
      BOOST_TEST((t.subject().fetch(t.now(), cost).retry_after == d.retry_after));
    }
  });
  BOOST_TEST(seen > 5000);
}

BOOST_AUTO_TEST_CASE(a_refused_call_and_a_fetch_change_nothing) {
  std::int64_t seen = 0;
  for_all_policies(60, 100, [&]<class Policy>(Policy p, test::random_source& random) {
    if constexpr (requires { p.count_refused; }) p.count_refused = false;
    traffic t(p, random, pace_of(p));
    for (int i = 0; i < 60; ++i) {
      t.wait();
      const std::int64_t cost = t.next_cost();
      const kernel_subject before = t.subject();
      const decision looked = t.subject().fetch(t.now(), cost);
      const decision d = t.subject().record(t.now(), cost);
      BOOST_TEST(d.allowed == looked.allowed);
      if (d.allowed) continue;
      ++seen;
      BOOST_TEST((d == looked));
      for (const std::int64_t later : {std::int64_t{0}, std::int64_t{1}, d.retry_after.count() - 1,
                                       d.retry_after.count(), d.reset_after.count()}) {
        BOOST_TEST(
            (before.fetch(t.now() + later, cost) == t.subject().fetch(t.now() + later, cost)));
      }
      BOOST_TEST(before.matters_until() == t.subject().matters_until());
    }
  });
  BOOST_TEST(seen > 5000);
}

BOOST_AUTO_TEST_CASE(a_cost_of_n_is_n_requests_of_one_at_the_same_time) {
  for_all_policies(70, 100, []<class Policy>(const Policy& p, test::random_source& random) {
    traffic t(p, random, pace_of(p));
    for (int i = 0; i < 40; ++i) {
      t.wait();
      const std::int64_t room = t.subject().fetch(t.now()).remaining;
      const std::int64_t cost = random.between(1,
                                               std::min<std::int64_t>(20, t.subject().ceiling()));
      kernel_subject singly = t.subject();
      const decision d = t.subject().record(t.now(), cost);
      BOOST_TEST(d.allowed == (cost <= room));
      if (!d.allowed) continue;
      BOOST_TEST(d.remaining == room - cost);
      decision last;
      for (std::int64_t n = 0; n < cost; ++n) last = singly.record(t.now(), 1);
      last.delay = d.delay;  // each of them has a turn of its own
      BOOST_TEST((last == d));
    }
  });
}

BOOST_AUTO_TEST_CASE(
    remaining_only_grows_while_nothing_comes_until_nothing_is_in_use_at_reset_after) {
  for_all_policies(80, 100, []<class Policy>(const Policy& p, test::random_source& random) {
    traffic t(p, random, pace_of(p));
    for (int i = 0; i < 20; ++i) {
      t.run(3);
      const decision d = t.subject().fetch(t.now());
      if (d.used == 0) continue;
      const std::int64_t end = t.now() + d.reset_after.count();
      BOOST_TEST(t.subject().fetch(end - 1).used > 0);
      BOOST_TEST(t.subject().fetch(end).used == 0);
      BOOST_TEST(t.subject().fetch(end).reset_after.count() == 0);
      std::int64_t remaining = d.remaining;
      for (int part = 1; part <= 16; ++part) {
        const std::int64_t at = t.now() +
                                static_cast<std::int64_t>(wide{d.reset_after.count()} * part / 16);
        const decision later = t.subject().fetch(at);
        BOOST_TEST(later.remaining >= remaining);
        if (at < end) BOOST_TEST(at + later.reset_after.count() == end);
        remaining = later.remaining;
      }
      BOOST_TEST(remaining == d.limit);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_clock_that_jumps_about_within_one_window_mints_nothing) {
  for_all_policies(90, 150, []<class Policy>(const Policy& p, test::random_source& random) {
    const auto [size, r] = shape_of(p);
    const std::int64_t filling = 10 * pace_of(p);
    // Aligned, so that it is one window for every anchor, and shorter than any.
    std::int64_t begin = t0;
    if constexpr (requires { p.window; }) begin = t0 / p.window.count() * p.window.count();
    if constexpr (requires { p.offset; }) {
      if (p.anchor == anchor::epoch) begin += p.offset.count();
    }
    const std::int64_t length = std::max<std::int64_t>(1, filling - 1);
    kernel_subject subject(p);
    wide admitted = 0;
    for (int i = 0; i < 100; ++i) {
      const std::int64_t cost = random.magnitude(subject.ceiling());
      if (subject.record(begin + random.between(0, length - 1), cost).allowed) admitted += cost;
    }
    wide allowed = size;
    if constexpr (!requires { p.window; }) {
      allowed += wide{length} * r.count / r.period.count();
    }
    BOOST_TEST((admitted <= allowed));
  });
}

BOOST_AUTO_TEST_CASE(a_leaky_bucket_spaces_its_outflow_evenly) {
  kernel_subject subject(leaky_bucket{.capacity = 5, .leak = {7, 3s}});
  std::int64_t now = t0, admitted = 0;
  for (int i = 0; i < 5; ++i) {
    const decision d = subject.record(now);
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.delay.count() == (admitted * 3'000'000 + 6) / 7);
    ++admitted;
  }
  for (int i = 0; i < 500; ++i, now += 100'001) {
    const decision d = subject.record(now);
    if (!d.allowed) {
      BOOST_TEST(d.delay.count() == 0);
      continue;
    }
    // Never idle, so each leaves exactly its number of intervals after the start, rounded up.
    BOOST_TEST(now + d.delay.count() == t0 + (admitted * 3'000'000 + 6) / 7);
    ++admitted;
  }
  BOOST_TEST(admitted > 100);
  BOOST_TEST(subject.fetch(now + 60'000'000).delay.count() == 0);
}

BOOST_AUTO_TEST_CASE(a_caller_that_hammers_stays_out_when_refused_calls_count) {
  const policy hard[] = {fixed_window{.limit = 5, .window = 1s, .count_refused = true},
                         sliding_log{.limit = 5, .window = 1s, .count_refused = true},
                         sliding_log{5, 1s, 100ms, true},
                         sliding_window{.limit = 5, .window = 1s, .count_refused = true}};
  for (const policy& p : hard) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      kernel_subject subject(p);
      std::int64_t allowed = 0;
      for (int i = 0; i < 3000; ++i) allowed += subject.record(t0 + i * 1000).allowed;
      // A fixed window forgives at its end; the others only callers that pause.
      BOOST_TEST(allowed <= (std::holds_alternative<fixed_window>(p) ? 15 : 5));
      BOOST_TEST(subject.fetch(t0 + 6'000'000).allowed);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace properties_test
