// weir::duration, and the options that are one: too long a time does not overflow, a negative one
// is an error, and a number without a unit does not compile.
#include "weir/duration.hpp"

#include <boost/system/system_error.hpp>
#include <cmath>

#include "support/limiter_fixture.hpp"
#include "support/text.hpp"

namespace duration_test {

using namespace weir;
using namespace weir::test;

template <class T, class... Values>
concept is_made_of = requires(Values... values) { T{values...}; };

using us = std::chrono::microseconds;

// token_bucket{5, 10} was a bucket of 5 that never refills.
static_assert(!is_made_of<token_bucket, int, int>);
static_assert(!is_made_of<token_bucket, int, int, int>);
static_assert(!is_made_of<leaky_bucket, int, int>);
static_assert(!is_made_of<gcra, int> && !is_made_of<gcra, int, int>);
static_assert(!is_made_of<fixed_window, int, int>);
static_assert(!is_made_of<sliding_log, int, int>);
static_assert(!is_made_of<sliding_log, int, us, int>);
static_assert(!is_made_of<sliding_window, int, int>);
static_assert(!is_made_of<rate, int> && !is_made_of<rate, int, int>);
static_assert(!is_made_of<record_options, int, int>);
static_assert(!is_made_of<acquire_options, int, int>);
static_assert(!is_made_of<reset_options, int>);
static_assert(is_made_of<token_bucket, int, rate>);
static_assert(is_made_of<gcra, rate, int>);
static_assert(is_made_of<fixed_window, int, std::chrono::hours>);
static_assert(is_made_of<rate, int, std::chrono::hours>);

// Floating point has a nearest microsecond; nanoseconds would be cut.
static_assert(is_made_of<duration, std::chrono::duration<double>>);
static_assert(is_made_of<duration, std::chrono::duration<std::uint8_t, std::ratio<86'400>>>);
static_assert(!is_made_of<duration, std::chrono::nanoseconds> && !is_made_of<duration, int>);

template <class Time>
concept is_waited_for = requires(const limiter& l, Time time) { l.acquire("a", time); };
static_assert(is_waited_for<std::chrono::seconds> && is_waited_for<duration>);
static_assert(!is_waited_for<int> && !is_waited_for<std::chrono::nanoseconds>);

// Aggregates in a co_await, for g++ 12.
static_assert(std::is_aggregate_v<acquire_options> && std::is_aggregate_v<limiter_options> &&
              std::is_aggregate_v<concurrency_options> &&
              std::is_aggregate_v<joint_acquire_options> &&
              std::is_trivially_destructible_v<joint_acquire_options> &&
              std::is_trivially_destructible_v<policy>);

constexpr duration forever = us::max();

struct fixture : limiter_fixture {
  weir::store store = make_memory_store(io.get_executor());
  limiter l{store, "r", fixed_window{.limit = 100, .window = 1h}, {.cool_downs = true}};
  concurrency_limiter gate{store, "g", {.limit = 3}};

  template <class Call>
  void expect(error e, Call&& call) {
    WEIR_TEST_ERROR(outcome_of(call).ec, e);
  }
};

template <class F>
void refused(error e, std::string_view option, F&& make) {
  BOOST_TEST_CONTEXT(option) {
    try {
      make();
      BOOST_ERROR("was accepted");
    } catch (const boost::system::system_error& failure) {
      WEIR_TEST_ERROR(failure.code(), e);
      BOOST_TEST(std::string_view(failure.what()).find(option) != std::string_view::npos,
                 failure.what());
    }
  }
}

BOOST_FIXTURE_TEST_SUITE(duration_suite, fixture)

BOOST_AUTO_TEST_CASE(a_time_too_long_for_microseconds_is_the_longest_one) {
  BOOST_TEST((duration(std::chrono::seconds::max()) == forever));
  BOOST_TEST((duration(std::chrono::hours::max()) == forever));
  BOOST_TEST((duration(std::chrono::milliseconds::max()) == forever));
  BOOST_TEST((duration(std::chrono::seconds::min()) == us::min()));
  BOOST_TEST((duration(std::chrono::duration<std::uint64_t>::max()) == forever));
  BOOST_TEST((duration(std::chrono::duration<double>(1e300)) == forever));
  BOOST_TEST((duration(std::chrono::duration<double>(-INFINITY)) == us::min()));
  BOOST_TEST((duration(std::chrono::duration<double>(NAN)) == us::min()));
  const std::int64_t most = us::max().count() / 1'000'000;
  BOOST_TEST((duration(std::chrono::seconds(most)) == std::chrono::seconds(most)));
  BOOST_TEST((duration(std::chrono::seconds(most + 1)) == forever));
  BOOST_TEST((duration(std::chrono::seconds(-most)) == std::chrono::seconds(-most)));
  BOOST_TEST((duration(std::chrono::seconds(-most - 1)) == us::min()));
}

BOOST_AUTO_TEST_CASE(a_fraction_of_a_microsecond_is_rounded_but_never_to_nothing) {
  const auto from = [](auto d) { return duration(d).count(); };
  BOOST_TEST(from(1.5s) == 1'500'000);
  BOOST_TEST(from(std::chrono::duration<double>(0.1)) == 100'000);
  BOOST_TEST(from(std::chrono::duration<float, std::milli>(0.5f)) == 500);
  BOOST_TEST(from(1.4us) == 1);
  BOOST_TEST(from(1.5us) == 2);
  BOOST_TEST(from(0.2us) == 1);
  BOOST_TEST(from(0.0us) == 0);
  BOOST_TEST(from(-0.2us) == -1);
  BOOST_TEST(from(-1.5us) == -2);
  BOOST_TEST(from(1e12s) == 1'000'000'000'000'000'000);
}

BOOST_AUTO_TEST_CASE(a_duration_is_used_like_the_microseconds_that_it_is) {
  acquire_options options{.max_wait = 1.5s};
  const us whole = options.max_wait;
  BOOST_TEST((whole == 1500ms && options.max_wait == 1500ms && options.max_wait < 2s));
  BOOST_TEST((options.max_wait + 1ms == 1501ms && options.max_wait / 3 == 500ms));
  options.timeout = 20ms;
  BOOST_TEST((options.timeout == 20ms && record_options{}.timeout == 0s));
}

// It was negative after the conversion, and so 0.
BOOST_AUTO_TEST_CASE(a_max_wait_of_all_seconds_waits) {
  const limiter one(store, "one", fixed_window{.limit = 1, .window = 20ms});
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(answer([&](auto h) {
                 one.acquire("a", {.max_wait = std::chrono::seconds::max()}, h);
               }).allowed);
  }
  BOOST_TEST(answer([&](auto h) { one.acquire("a", 5s, h); }).allowed);
  BOOST_TEST(answer([&](auto h) { one.acquire("a", std::chrono::hours::max(), h); }).allowed);
  BOOST_TEST(!answer([&](auto h) { one.acquire("a", 0s, h); }).allowed);
}

BOOST_AUTO_TEST_CASE(the_longest_timeout_and_cool_down_are_cut) {
  BOOST_TEST(
      answer([&](auto h) { l.record("a", {.timeout = std::chrono::hours::max()}, h); }).allowed);
  const decision d = answer([&](auto h) {
    l.cool_down("a", std::chrono::seconds::max(), {.timeout = std::chrono::hours::max()}, h);
  });
  BOOST_TEST((d.clamped && d.retry_after == 1h));
}

// It was silently the nearest bound, or the end of the call at once.
BOOST_AUTO_TEST_CASE(a_negative_duration_is_an_error) {
  const decision one = answer([&](auto h) { l.record("a", h); });
  constexpr error wrong = error::invalid_duration;
  for (const duration time : {duration(-1us), duration(-24h), duration(us::min())}) {
    expect(wrong, [&](auto h) { l.record("a", {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.fetch("a", {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.acquire("a", {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.acquire("a", {.max_wait = time}, h); });
    expect(wrong, [&](auto h) { l.acquire("a", time, h); });
    expect(wrong, [&](auto h) { l.refund("a", one, {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.settle("a", one, 0, {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.cool_down("a", time, h); });
    expect(wrong, [&](auto h) { l.cool_down("a", 1s, {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.on_response("a", 429, {}, {.timeout = time}, h); });
    expect(wrong, [&](auto h) { l.reset("a", {.timeout = time}, h); });
    expect(wrong, [&](auto h) { gate.fetch("a", {.timeout = time}, h); });
    const joint_options joint{.timeout = time};
    expect(wrong, [&](auto h) { record_all(l.on("a"), joint, h); });
    expect(wrong, [&](auto h) { fetch_all(l.on("a"), joint, h); });
    expect(wrong, [&](auto h) { refund_all(one, l.on("a"), joint, h); });
    expect(wrong, [&](auto h) { settle_all(one, l.on("a"), joint, h); });
    for (const auto& options :
         {joint_acquire_options{.max_wait = time}, joint_acquire_options{.timeout = time}}) {
      expect(wrong, [&](auto h) { acquire_all(l.on("a"), options, h); });
    }
    error_code entered;
    bool done = false;
    gate.enter("a", {.timeout = time}, [&](error_code ec, lease) {
      entered = ec;
      done = true;
    });
    run_until(io, [&] { return done; });
    WEIR_TEST_ERROR(entered, wrong);
  }
  BOOST_TEST(answer([&](auto h) { l.fetch("a", h); }).used == 1);
}

BOOST_AUTO_TEST_CASE(options_that_a_constructor_takes_are_refused_outside_their_range) {
  const fixed_window window{.limit = 1, .window = 1s};
  for (const duration time : {duration(-1us), duration(us::min()), forever}) {
    const auto limiter_with = [&](std::string_view option, const limiter_options& options) {
      refused(error::invalid_policy, option, [&] { limiter(store, "r", window, options); });
    };
    limiter_with("max_cool_down", {.cool_downs = true, .max_cool_down = time});
    if (time < 0s)
      limiter_with("default_cool_down", {.cool_downs = true, .default_cool_down = time});
    limiter_with("deny_cache_duration", {.deny_cache_subjects = 1, .deny_cache_duration = time});
    if (time < 0s) limiter_with("priority_aging", {.priority_aging = time});
    refused(error::invalid_policy, "lease_duration",
            [&] { concurrency_limiter(store, "g", {.lease_duration = time}); });
    const auto policy_with = [&](std::string_view option, const policy& p) {
      refused(error::invalid_policy, option, [&] { limiter(store, "r", p); });
    };
    policy_with("window", fixed_window{.limit = 1, .window = time});
    policy_with("window", sliding_log{.limit = 1, .window = time});
    policy_with("resolution", sliding_log{.limit = 1, .window = 1s, .resolution = time});
    policy_with("window", sliding_window{.limit = 1, .window = time});
    policy_with("offset",
                fixed_window{.limit = 1, .window = 1s, .anchor = anchor::epoch, .offset = time});
    policy_with("token_bucket", token_bucket{.capacity = 1, .refill = {1, time}});
    policy_with("gcra", gcra{.rate = every(time)});
    policy_with("leaky_bucket", leaky_bucket{.capacity = 1, .leak = rate(1, time)});
  }
}

BOOST_AUTO_TEST_CASE(options_of_stores_are_refused_outside_their_range) {
  using weir::memcached_options, weir::redis_options;
  const auto each = [&]<class Options>(auto make, Options) {
    const auto with = [&](std::string_view name, duration Options::*option) {
      for (const duration time :
           {duration(-1us), duration(std::chrono::hours::min()), duration(25h),
            duration(std::chrono::seconds::max()), duration(std::chrono::milliseconds::max())}) {
        Options o;
        o.*option = time;
        refused(error::invalid_options, name, [&] { make(io.get_executor(), o); });
      }
    };
    with("timeout", &Options::timeout);
    with("connect_timeout", &Options::connect_timeout);
    with("silence_timeout", &Options::silence_timeout);
    with("ping_interval", &Options::ping_interval);
    with("backoff_min", &Options::backoff_min);
    with("backoff_max", &Options::backoff_max);
    with("breaker_pause", &Options::breaker_pause);
    with("spin_time", &Options::spin_time);
    if constexpr (std::is_same_v<Options, memcached_options>) {
      with("max_clock_skew", &Options::max_clock_skew);
      with("clock_check_interval", &Options::clock_check_interval);
    }
  };
  each([](auto executor, const auto& o) { return make_redis_store(executor, o); }, redis_options{});
  each([](auto executor, const auto& o) { return make_memcached_store(executor, o); },
       memcached_options{});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace duration_test
