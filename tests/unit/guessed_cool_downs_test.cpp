// Cool-downs after refusals without a time: they double while the vendor refuses, and a call that
// it serves ends that, for all processes.
#include "support/limiter_fixture.hpp"

namespace guessed_cool_downs_test {

using namespace weir;
using namespace weir::test;

const token_bucket ten{.capacity = 10, .refill = per_second(1)};

struct fixture : limiter_fixture {
  microseconds now = 1'000'000s;
  weir::store store = make_memory_store(io.get_executor(),
                                        {.clock = [this] { return time_point(now); }});
  // They stand for two processes.
  const limiter l = with({}), other = with({});

  limiter with(limiter_options options) {
    options.cool_downs = true;
    return limiter(store, "vendor", ten, options);
  }
  outcome respond(const limiter& by, int status, const std::vector<header_field>& headers = {},
                  const response_options& options = {}) {
    return outcome_of([&](auto h) { by.on_response("a", status, headers, options, h); });
  }
  /// What the answer to a refusal says of the cool-down.
  microseconds refused(const limiter& by) {
    const outcome o = respond(by, 429);
    BOOST_TEST(!o.ec.failed());
    BOOST_TEST(o.d.cooling_down);
    return o.d.retry_after;
  }
  decision record(const limiter& by) {
    return answer([&](auto h) { by.record("a", h); });
  }
};

BOOST_FIXTURE_TEST_SUITE(guessed_cool_downs_suite, fixture)

BOOST_AUTO_TEST_CASE(they_double_up_to_the_longest) {
  const limiter bounded = with({.max_cool_down = 10s, .default_cool_down = 2s});
  for (const microseconds expected : {2s, 4s, 8s, 10s, 10s}) {
    const microseconds got = refused(bounded);
    BOOST_TEST((got == expected));
    now += got;
  }
  BOOST_TEST(record(bounded).allowed);
  BOOST_TEST(!respond(bounded, 429).d.clamped);  // the vendor has asked for nothing
}

BOOST_AUTO_TEST_CASE(the_processes_double_together) {
  const limiter* by[] = {&l, &other};
  for (int i = 0; i < 6; ++i) {
    const microseconds got = refused(*by[i % 2]);
    BOOST_TEST((got == 1s * (1 << i)));
    now += got;
  }
}

BOOST_AUTO_TEST_CASE(the_refusals_of_one_burst_count_once) {
  for (const microseconds expected : {1s, 2s, 4s}) {
    for (int i = 0; i < 100; ++i) {
      BOOST_TEST((refused(i % 2 == 0 ? l : other) == expected - i * 1ms));
      now += 1ms;
    }
    now += expected - 100ms;
    BOOST_TEST(record(l).allowed);
  }
}

BOOST_AUTO_TEST_CASE(a_served_call_ends_the_doubling_for_all) {
  for (const limiter* by : {&l, &other}) {
    now += refused(l);
    now += refused(other);
    BOOST_TEST(respond(*by, 204).d.allowed);
    const microseconds got = refused(other);
    BOOST_TEST((got == 1s));
    now += 2 * got + 1us;
  }
}

// It got no refusal itself.
BOOST_AUTO_TEST_CASE(a_process_that_was_told_of_the_cool_down_ends_the_doubling_too) {
  now += refused(l);
  refused(l);
  BOOST_TEST(record(other).cooling_down);
  now += 2s;
  respond(other, 200);
  BOOST_TEST((refused(l) == 1s));
}

// It was sent before the cool-down.
BOOST_AUTO_TEST_CASE(a_call_that_is_served_in_a_cool_down_ends_nothing) {
  now += refused(l);
  BOOST_TEST((refused(l) == 2s));
  now += 500ms;
  BOOST_TEST((respond(l, 200).d.retry_after == 1500ms));
  now += 1500ms;
  BOOST_TEST((refused(l) == 4s));
  now += 4s;
  respond(l, 200);
  BOOST_TEST((refused(l) == 1s));
}

BOOST_AUTO_TEST_CASE(neither_a_failure_nor_silence_is_a_served_call) {
  now += refused(l);
  for (const int status : {400, 404, 500, 503}) respond(l, status);
  BOOST_TEST((refused(l) == 2s));
}

BOOST_AUTO_TEST_CASE(they_double_if_the_next_refusal_comes_soon) {
  now += refused(l);
  now += 1s;
  BOOST_TEST((refused(l) == 2s));
  now += 4s;
  BOOST_TEST((refused(l) == 4s));
  now += 8s + 1us;
  BOOST_TEST((refused(l) == 1s));
}

BOOST_AUTO_TEST_CASE(times_of_the_vendor_and_of_the_caller_double_nothing) {
  respond(l, 429, {{"Retry-After", "7"}});
  now += 7s;
  BOOST_TEST((refused(l) == 1s));
  now += 1s;
  const auto said = respond(l, 429, {{"Retry-After", "5"}}).d.retry_after;
  BOOST_TEST((said == 5s));
  now += said;
  answer([&](auto h) { l.cool_down("a", 8s, h); });
  now += 8s;
  BOOST_TEST((refused(l) == 1s));
  // A longer time prolongs a guess; a shorter one is known already.
  BOOST_TEST((respond(l, 429, {{"Retry-After", "1"}}).d.retry_after == 1s));
  BOOST_TEST((respond(l, 429, {{"Retry-After", "3"}}).d.retry_after == 3s));
}

BOOST_AUTO_TEST_CASE(without_the_option_they_stay_the_same) {
  const limiter same = with({.default_cool_down_doubles = false});
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST((refused(same) == 1s));
    now += 500ms;
    BOOST_TEST((refused(same) == 1s));  // counts from the last refusal
    now += 1s;
  }
  store.close();
  BOOST_TEST(respond(same, 200).d.allowed);  // asks no store
}

BOOST_AUTO_TEST_CASE(only_the_first_served_call_after_a_cool_down_asks_the_store) {
  now += refused(l);
  respond(l, 200);
  store.close();
  BOOST_TEST(respond(l, 200).d.allowed);
}

BOOST_AUTO_TEST_CASE(of_many_served_calls_in_a_cool_down_one_asks_the_store) {
  refused(l);
  BOOST_TEST(respond(l, 200).d.cooling_down);
  store.close();
  BOOST_TEST(respond(l, 200).d.allowed);
}

BOOST_AUTO_TEST_CASE(a_served_call_that_the_store_was_not_told_of_is_told_by_the_next) {
  now += refused(l);
  store.close();
  for (int i = 0; i < 2; ++i) WEIR_TEST_ERROR(respond(l, 200).ec, error::store_closed);
}

BOOST_AUTO_TEST_CASE(reset_ends_the_doubling) {
  now += refused(l);
  answer([&](auto h) { l.reset("a", [h](error_code ec) mutable { h(ec); }); });
  BOOST_TEST((refused(l) == 1s));
}

BOOST_AUTO_TEST_CASE(the_caller_may_know_that_the_vendor_refused) {
  BOOST_TEST(respond(l, 403).d.allowed);
  BOOST_TEST(respond(l, 200).d.allowed);
  for (const int status : {200, 403, 401}) {
    BOOST_TEST_CONTEXT(status) {
      BOOST_TEST((respond(l, status, {}, {.refused = true}).d.retry_after == 1s));
      now += 1h;
      const std::vector<header_field> after{{"Retry-After", "30"}};
      BOOST_TEST((respond(l, status, after, {.refused = true}).d.retry_after == 30s));
      now += 1h;
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace guessed_cool_downs_test
