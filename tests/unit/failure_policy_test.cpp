// What becomes of a call when the store cannot say: through a store that always fails.
#include "limiter/failure_policy.hpp"

#include <malloc.h>

#include <boost/asio/error.hpp>

#include "limiter/limiter_impl.hpp"
#include "limiter/local_fallback.hpp"
#include "support/fake_check.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"

namespace failure_policy_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check_kind;

core_ptr core_with(const weir::tiers& p, limiter_options o) {
  return std::make_shared<weir::detail::limiter_impl>(std::make_shared<null_store>(), "r", p, o);
}

core_ptr core_with(const weir::policy& p, limiter_options o) {
  return core_with(weir::tiers(p), o);
}

struct outcome {
  error_code ec;
  decision answer;
};

outcome fail(const core_ptr& core, error_code with, std::string_view subject = "s",
             std::int64_t cost = 1, fake_request kind = check_kind::record) {
  fake_check c(core, subject, cost, kind);
  c.ec = with;
  weir::detail::apply_failure_policy(c);
  return {c.ec, c.answer};
}

const weir::policy ten_a_day = fixed_window{.limit = 10, .window = 24h};

BOOST_AUTO_TEST_SUITE(failure_policy_suite)

// With three tiers and room for one subject, it refused everybody.
BOOST_AUTO_TEST_CASE(the_fallback_remembers_subjects_however_many_tiers_they_have) {
  const weir::tiers three{ten_a_day, fixed_window{.limit = 100, .window = 48h},
                          fixed_window{.limit = 1000, .window = 96h}};
  const auto core = core_with(
      three, {.on_failure = on_failure::fallback, .process_count = 1, .max_fallback_subjects = 2});
  BOOST_TEST(fail(core, error::timed_out, "a").answer.allowed);
  BOOST_TEST(fail(core, error::timed_out, "b").answer.allowed);
  BOOST_TEST(!fail(core, error::timed_out, "c").answer.allowed);
  BOOST_TEST(fail(core, error::timed_out, "a").answer.allowed);
}

BOOST_AUTO_TEST_CASE(raise_leaves_the_error) {
  const auto core = core_with(ten_a_day, {});
  BOOST_TEST((fail(core, error::timed_out).ec == error::timed_out));
  BOOST_TEST((fail(core, error::timed_out).answer.failure == error{}));
}

// Alerts on what is wrong with a store saw nothing of limiters with a policy.
BOOST_AUTO_TEST_CASE(a_decision_without_the_store_names_the_failure) {
  for (const auto policy : {on_failure::open, on_failure::closed, on_failure::fallback}) {
    const auto core = core_with(ten_a_day, {.on_failure = policy, .process_count = 1});
    const outcome o = fail(core, error::authentication_failed);
    BOOST_TEST((o.answer.failure == error::authentication_failed));
    BOOST_TEST((o.answer.source == source::fallback));
  }
}

BOOST_AUTO_TEST_CASE(open_allows_and_closed_refuses_and_both_say_so) {
  const auto open = fail(core_with(ten_a_day, {.on_failure = on_failure::open}), error::no_reply);
  BOOST_TEST(!open.ec);
  BOOST_TEST(open.answer.allowed);
  BOOST_TEST((open.answer.retry_after == 0s));
  BOOST_TEST((open.answer.decided_at.time_since_epoch() > 24h * 365 * 50));
  BOOST_TEST((open.answer.source == source::fallback));
  BOOST_TEST(open.answer.limit == 10);
  const auto closed = fail(core_with(ten_a_day, {.on_failure = on_failure::closed}),
                           error::circuit_open);
  BOOST_TEST(!closed.ec);
  BOOST_TEST(!closed.answer.allowed);
  BOOST_TEST((closed.answer.retry_after == 1s));
  BOOST_TEST((closed.answer.source == source::fallback));
}

BOOST_AUTO_TEST_CASE(mistakes_in_the_call_and_cancellation_are_always_errors) {
  for (const auto policy : {on_failure::open, on_failure::closed, on_failure::fallback}) {
    const auto core = core_with(ten_a_day, {.on_failure = policy, .process_count = 1});
    for (const error e : {error::invalid_subject, error::invalid_cost, error::cost_exceeds_limit,
                          error::store_closed, error::overloaded}) {
      BOOST_TEST((fail(core, e).ec == e));
    }
    BOOST_TEST((fail(core, boost::asio::error::operation_aborted).ec ==
                boost::asio::error::operation_aborted));
    BOOST_TEST((fail(core, error::timed_out, "s", 1, check_kind::reset).ec == error::timed_out));
    BOOST_TEST(!fail(core, {}).ec);
  }
}

BOOST_AUTO_TEST_CASE(every_other_error_is_a_failure_of_the_store) {
  const auto core = core_with(ten_a_day, {.on_failure = on_failure::open});
  for (int value = 1; value <= static_cast<int>(error::not_memcached); ++value) {
    const error_code ec(value, error_category());
    const bool stays = ec == condition::invalid_input || ec == error::store_closed ||
                       ec == error::overloaded || ec == error::store_contention;
    BOOST_TEST(fail(core, ec).ec.failed() == stays, ec.message());
  }
  // Numbers that are no error of ours, and numbers of ours in another category.
  for (const error_code foreign :
       {error_code(1000, error_category()),
        error_code(static_cast<int>(error::timed_out), boost::system::system_category())}) {
    BOOST_TEST((fail(core, foreign).ec == foreign));
  }
}

// Fallback at the full limit in each of N processes lets N times the limit through.
BOOST_AUTO_TEST_CASE(the_fallback_counts_with_its_share_of_the_limit) {
  const auto core = core_with(ten_a_day, {.on_failure = on_failure::fallback, .process_count = 4});
  int allowed = 0;
  for (int i = 0; i < 10; ++i) allowed += fail(core, error::timed_out).answer.allowed;
  BOOST_TEST(allowed == 2);
  BOOST_TEST(fail(core, error::timed_out).answer.limit == 2);
  BOOST_TEST((fail(core, error::timed_out).answer.source == source::fallback));
  BOOST_TEST(fail(core, error::timed_out, "another subject").answer.allowed);
}

// They were counted apart, each up to the limit.
BOOST_AUTO_TEST_CASE(the_fallback_counts_reservations_and_records_together) {
  const auto core = core_with(ten_a_day, {.on_failure = on_failure::fallback, .process_count = 1});
  const auto ask = [&](fake_request kind) {
    return fail(core, error::timed_out, "s", 1, kind).answer.allowed;
  };
  for (int i = 0; i < 5; ++i) BOOST_TEST((ask(check_kind::acquire) && ask(check_kind::record)));
  BOOST_TEST(!ask(check_kind::acquire));
  BOOST_TEST(!ask(check_kind::record));
  BOOST_TEST(fail(core, error::timed_out, "s", 1, check_kind::fetch).answer.used == 10);
}

BOOST_AUTO_TEST_CASE(a_fetch_from_the_fallback_counts_nothing) {
  const auto core = core_with(ten_a_day, {.on_failure = on_failure::fallback, .process_count = 10});
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(fail(core, error::timed_out, "s", 1, check_kind::fetch).answer.allowed);
  }
  BOOST_TEST(fail(core, error::timed_out).answer.allowed);
  BOOST_TEST(!fail(core, error::timed_out, "s", 1, check_kind::fetch).answer.allowed);
}

BOOST_AUTO_TEST_CASE(a_cost_beyond_the_share_is_refused_and_no_error) {
  const auto core = core_with(ten_a_day, {.on_failure = on_failure::fallback, .process_count = 4});
  const auto got = fail(core, error::timed_out, "s", 5);
  BOOST_TEST(!got.ec);
  BOOST_TEST(!got.answer.allowed);
  BOOST_TEST((got.answer.retry_after == 1s));  // when the store may be back: here it will never fit
}

BOOST_AUTO_TEST_CASE(the_fallback_remembers_a_bounded_number_of_subjects) {
  const auto core = core_with(
      ten_a_day,
      {.on_failure = on_failure::fallback, .process_count = 1, .max_fallback_subjects = 3});
  for (const char* s : {"a", "b", "c"}) BOOST_TEST(fail(core, error::timed_out, s).answer.allowed);
  const auto one_too_many = fail(core, error::timed_out, "d").answer;
  BOOST_TEST(!one_too_many.allowed);
  BOOST_TEST((one_too_many.retry_after == 1s));
  BOOST_TEST(fail(core, error::timed_out, "a").answer.allowed);
}

// 5,000 subjects of 60 KB were kept whole: 310 MB.
BOOST_AUTO_TEST_CASE(the_fallback_keeps_no_long_subjects_and_tells_them_apart) {
  const std::string head(60'000, 'x');
  for (const bool tiered : {false, true}) {
    const weir::limiter_options o{.on_failure = on_failure::fallback, .process_count = 1};
    const auto core = std::make_shared<weir::detail::limiter_impl>(
        std::make_shared<null_store>(), "r",
        tiered ? weir::tiers(ten_a_day, ten_a_day) : weir::tiers(ten_a_day), o);
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 500; ++i) {
      fail(core, error::timed_out, head + std::to_string(i));
    }
    const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (!is_sanitized) BOOST_TEST(after - before < 5'000'000u);
    for (const int i : {0, 499}) {
      for (const check_kind kind : {check_kind::fetch, check_kind::record, check_kind::acquire}) {
        const auto got = fail(core, error::timed_out, head + std::to_string(i), 1, kind);
        BOOST_TEST(got.answer.used == (kind == check_kind::fetch    ? 1
                                       : kind == check_kind::record ? 2
                                                                    : 3));
      }
    }
    // Lengths around the bound: all different.
    for (std::size_t n = 250; n < 262; ++n) {
      BOOST_TEST(fail(core, error::timed_out, head.substr(0, n)).answer.used == 1);
    }
  }
}

// 1,260,972 calls were admitted in 4 s where 100 a second were allowed. Where processes compete for
// a value in memcached, 440 passed although nothing was left.
BOOST_AUTO_TEST_CASE(a_flood_of_calls_is_no_failure_of_the_store) {
  for (const auto policy : {on_failure::open, on_failure::closed, on_failure::fallback}) {
    const auto core = core_with(ten_a_day,
                                {.on_failure = policy, .process_count = 1, .group = "g"});
    for (const auto kind : {check_kind::record, check_kind::fetch, check_kind::acquire}) {
      for (const error e : {error::overloaded, error::store_contention}) {
        const auto got = fail(core, e, "s", 1, kind);
        BOOST_TEST((got.ec == e));
        BOOST_TEST(!got.answer.allowed);
      }
    }
    fake_check joint(core, "s", 1, check_kind::record, std::chrono::microseconds{0},
                     {{core, weir::detail::short_text("t"), 1}});
    joint.ec = error::overloaded;
    weir::detail::apply_failure_policy(joint);
    BOOST_TEST((joint.ec == error::overloaded));
  }
}

BOOST_AUTO_TEST_CASE(shares_of_every_policy_keep_burst_and_rate_in_proportion) {
  using weir::detail::share_of;
  using namespace weir;
  const auto log = std::get<sliding_log>(share_of(sliding_log{.limit = 9, .window = 1s}, 4));
  BOOST_TEST(log.limit == 2);
  const auto free = std::get<sliding_window>(
      share_of(sliding_window{.limit = unlimited, .window = 1s}, 4));
  BOOST_TEST(free.limit == unlimited);
  const auto bucket = std::get<token_bucket>(
      share_of(token_bucket{.capacity = 20, .refill = per_second(100)}, 4));
  BOOST_TEST(bucket.capacity == 5);
  BOOST_TEST((bucket.refill == per_second(25)));
  const auto odd = std::get<gcra>(share_of(gcra{.rate = per_second(7), .burst = 2}, 3));
  BOOST_TEST(odd.burst == 1);
  BOOST_TEST((odd.rate == rate{7, 3s}));
  const auto leak = std::get<leaky_bucket>(
      share_of(leaky_bucket{.capacity = 1, .leak = every(10ms)}, 5));
  BOOST_TEST(leak.capacity == 1);
  BOOST_TEST((leak.leak == every(50ms)));
  for (const std::int64_t none : {0, -3}) {
    BOOST_TEST(std::get<sliding_log>(share_of(log, none)).limit == log.limit);
  }
  // Every share compiles, whatever the number of clients.
  for (const std::int64_t clients : {1, 2, 1000, 1'000'000'000}) {
    for (const weir::policy& p :
         {weir::policy(bucket), weir::policy(odd), weir::policy(leak), weir::policy(log)}) {
      BOOST_CHECK_NO_THROW(weir::policies::compile(share_of(p, clients)));
    }
  }
}

// Limiters asked together: the strictest policy decides, and a refusal names the place among the
// arguments.
BOOST_AUTO_TEST_CASE(together_the_strictest_failure_policy_decides) {
  const weir::policy two = fixed_window{.limit = 2, .window = 24h};
  const auto make = [&](on_failure f, const weir::tiers& tiers, bool feedback = false) {
    limiter_options o{.on_failure = f, .process_count = 1};
    o.group = "g";
    o.cool_downs = feedback;
    return std::make_shared<const weir::detail::limiter_impl>(std::make_shared<null_store>(), "r",
                                                              tiers, o);
  };
  const auto ask = [](const core_ptr& a, const core_ptr& b,
                      fake_request kind = check_kind::record) {
    fake_check c(a, "s", 1, kind, std::chrono::microseconds{0},
                 {{b, weir::detail::short_text("t"), 1}});
    c.ec = error::timed_out;
    weir::detail::apply_failure_policy(c);
    return outcome{c.ec, c.answer};
  };
  const auto raise = make(on_failure::raise, weir::tiers(ten_a_day));
  const auto open = make(on_failure::open, weir::tiers(ten_a_day));
  const auto closed = make(on_failure::closed, weir::tiers(ten_a_day));
  const auto local = make(on_failure::fallback, weir::tiers(two));
  BOOST_TEST((ask(open, raise).ec == error::timed_out));
  BOOST_TEST((ask(raise, local).ec == error::timed_out));
  BOOST_TEST(!ask(local, closed).answer.allowed);
  BOOST_TEST(ask(open, open).answer.allowed);

  for (int i = 0; i < 2; ++i) BOOST_TEST(ask(open, local, check_kind::fetch).answer.allowed);
  for (int i = 0; i < 4; ++i) {
    const auto o = ask(open, local);
    BOOST_TEST(!o.ec);
    BOOST_TEST(o.answer.allowed == (i < 2));
    BOOST_TEST(o.answer.tier == (i < 2 ? -1 : 1));
    BOOST_TEST((o.answer.source == source::fallback));
  }
  // Behind a limiter with three tiers (and a hold, which takes no place), its own second tier
  // refuses; and what it refuses, the other has not counted.
  const auto three = make(on_failure::fallback, weir::tiers(ten_a_day, ten_a_day, ten_a_day), true);
  const auto tiered = make(on_failure::fallback, weir::tiers(ten_a_day, two));
  for (int i = 0; i < 5; ++i) {
    const auto o = ask(three, tiered);
    BOOST_TEST(o.answer.allowed == (i < 2));
    BOOST_TEST(o.answer.tier == (i < 2 ? -1 : 4));
  }
  BOOST_TEST(fail(three, error::timed_out, "s", 1, check_kind::fetch).answer.used == 2);
}

// The bucket refused in one look, and allowed in the next, a microsecond later.
BOOST_AUTO_TEST_CASE(together_nothing_passes_that_only_one_of_them_has_counted) {
  const auto make = [](const weir::policy& p) {
    return core_with(p, {.on_failure = on_failure::fallback, .process_count = 1, .group = "g"});
  };
  const auto window = make(weir::sliding_window{.limit = 1'000'000, .window = 24h});
  const auto bucket = make(weir::leaky_bucket{.capacity = 10, .leak = {1, 50us}});
  std::int64_t passed = 0;
  for (int i = 0; i < 20'000; ++i) {
    fake_check c(window, "s", 1, check_kind::acquire, std::chrono::microseconds{0},
                 {{bucket, weir::detail::short_text("t"), 1}});
    c.ec = error::timed_out;
    weir::detail::apply_failure_policy(c);
    BOOST_REQUIRE(!c.ec);
    passed += c.answer.allowed ? 1 : 0;
  }
  BOOST_TEST(passed > 0);
  BOOST_TEST(passed < 20'000);
  BOOST_TEST(fail(window, error::timed_out, "s", 1, check_kind::fetch).answer.used == passed);
  BOOST_TEST(fail(bucket, error::timed_out, "t", 1, check_kind::fetch).answer.used <= 10);
}

// Zero acted as one: in an outage, each process of a fleet allowed the whole limit.
BOOST_AUTO_TEST_CASE(a_share_of_no_processes_is_refused) {
  for (const std::int64_t processes : {0, -1, -5}) {
    BOOST_CHECK_THROW(
        core_with(ten_a_day, {.on_failure = on_failure::fallback, .process_count = processes}),
        boost::system::system_error);
    BOOST_CHECK_NO_THROW(core_with(ten_a_day, {.process_count = processes}));
  }
  // A number that nobody set is no number: the default is 0.
  BOOST_CHECK_THROW(core_with(ten_a_day, {.on_failure = on_failure::fallback}),
                    boost::system::system_error);
  BOOST_CHECK_THROW(core_with(ten_a_day, {.on_failure = on_failure::fallback,
                                          .process_count = 1,
                                          .max_fallback_subjects = 0}),
                    boost::system::system_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace failure_policy_test
