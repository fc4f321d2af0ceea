// What a vendor's 429 does to a subject: held back for so long, by the store's clock, and never for
// less than was asked.
#include "support/limiter_fixture.hpp"

namespace cool_down_test {

using namespace weir;
using namespace weir::test;

const token_bucket ten{.capacity = 10, .refill = per_second(1)};
const limiter_options listening{.cool_downs = true};

struct fixture : limiter_fixture {
  microseconds now = 1'000'000s;
  weir::store store = make_memory_store(io.get_executor(),
                                        {.clock = [this] { return time_point(now); }});

  decision record(const limiter& l, std::string_view subject = "a") {
    return answer([&](auto handler) { l.record(subject, handler); });
  }
  decision fetch(const limiter& l, std::string_view subject = "a") {
    return answer([&](auto handler) { l.fetch(subject, handler); });
  }
  decision cool_down(const limiter& l, microseconds pause, std::string_view subject = "a") {
    return answer([&](auto handler) { l.cool_down(subject, pause, handler); });
  }
  outcome respond(const limiter& l, int status, const std::vector<header_field>& headers) {
    return outcome_of([&](auto handler) { l.on_response("a", status, headers, handler); });
  }
};

/// As Boost.Beast's messages look from here.
struct response {
  struct field {
    std::string_view name_string() const { return "Retry-After"; }
    std::string_view value() const { return "7"; }
  };
  int result_int() const { return 429; }
  const field* begin() const { return &one; }
  const field* end() const { return &one + 1; }
  field one;
};

BOOST_FIXTURE_TEST_SUITE(cool_down_suite, fixture)

BOOST_AUTO_TEST_CASE(a_subject_is_held_back_until_the_pause_is_over) {
  const limiter l(store, "vendor", ten, listening);
  BOOST_TEST(record(l).used == 1);
  const decision d = cool_down(l, 30s);
  BOOST_TEST((!d.allowed && d.cooling_down));
  BOOST_TEST((d.retry_after == 30s));

  now += 1us;
  for (const decision& refused : {record(l), fetch(l)}) {
    BOOST_TEST((!refused.allowed && refused.cooling_down));
    BOOST_TEST(refused.tier == -1);
    BOOST_TEST((refused.retry_after >= 30s - 1us));
    BOOST_TEST(refused.limit == 10);
    BOOST_TEST(refused.used == 1);
    BOOST_TEST(refused.remaining == 0);
  }
  const decision other = record(l, "b");
  BOOST_TEST((other.allowed && !other.cooling_down));

  now += 30s - 2us;
  BOOST_TEST(!record(l).allowed);
  now += 1us;
  const decision after = record(l);
  BOOST_TEST(after.allowed);
  BOOST_TEST(after.used == 1);  // it has been refilled meanwhile
}

BOOST_AUTO_TEST_CASE(a_shorter_pause_changes_nothing_and_a_longer_one_prolongs) {
  const limiter l(store, "vendor", ten, listening);
  cool_down(l, 30s);
  now += 10s;
  BOOST_TEST((cool_down(l, 5s).retry_after == 20s));
  BOOST_TEST((cool_down(l, 20s).retry_after == 20s));
  BOOST_TEST((cool_down(l, 21s).retry_after == 21s));
}

BOOST_AUTO_TEST_CASE(a_pause_of_nothing_is_none_and_asks_how_long_the_present_one_lasts) {
  const limiter l(store, "vendor", ten, listening);
  BOOST_TEST(cool_down(l, 0us).allowed);
  BOOST_TEST(record(l).allowed);

  cool_down(l, 30s);
  now += 10s;
  const decision d = cool_down(l, 0us);
  BOOST_TEST((!d.allowed && d.cooling_down));
  BOOST_TEST((d.retry_after == 20s));
  now += 20s;
  BOOST_TEST(cool_down(l, 0us).allowed);
}

// It held the subject back for ten days.
BOOST_AUTO_TEST_CASE(a_pause_that_began_while_the_clock_was_ahead_does_not_outlast_the_mend) {
  const limiter l(store, "vendor", ten, listening);
  now += 240h;
  cool_down(l, 30s);
  now -= 240h;
  BOOST_TEST(cool_down(l, 0s).allowed);
  BOOST_TEST(record(l).allowed);
  BOOST_TEST((cool_down(l, 5s).retry_after == 5s));
}

// It held the subject back when the clock came near.
BOOST_AUTO_TEST_CASE(a_pause_that_began_while_the_clock_was_ahead_does_not_come_back) {
  const limiter l(store, "vendor", ten, listening);
  now += 1h;
  cool_down(l, 10min);
  now -= 1h;
  BOOST_TEST(record(l).allowed);
  now += 55min;
  BOOST_TEST(record(l).allowed);
}

// Clocks of a server and of its replica differ a little.
BOOST_AUTO_TEST_CASE(a_pause_stays_when_the_clock_steps_back_a_little) {
  const limiter l(store, "vendor", ten, listening);
  cool_down(l, 30s);
  now -= 90s;
  BOOST_TEST((cool_down(l, 0s).retry_after == 30s));  // no longer than all of it
  BOOST_TEST(!record(l).allowed);
  now -= 1us;
  BOOST_TEST(record(l).allowed);
}

BOOST_AUTO_TEST_CASE(a_longer_pause_behind_a_clock_that_stepped_back_is_told_whole) {
  const limiter l(store, "vendor", ten, listening);
  cool_down(l, 1s);
  now -= 50s;
  BOOST_TEST((cool_down(l, 10s).retry_after == 10s));
}

// The earlier cool-down ended later by the clock of that moment, and ended the pause when the clock
// was put right.
BOOST_AUTO_TEST_CASE(a_pause_asked_for_behind_the_clock_is_not_lost_in_an_earlier_one) {
  for (const microseconds back : std::vector<microseconds>{1us, 5s, 10s, 20s, 70s}) {
    BOOST_TEST_CONTEXT(back.count() << " us back") {
      const std::string subject = std::to_string(back.count());
      const limiter l(store, "vendor", ten, listening);
      cool_down(l, 10s, subject);
      now -= back;
      BOOST_TEST((cool_down(l, 30s, subject).retry_after == 30s));
      now += back + 30s - 1us;
      BOOST_TEST(record(l, subject).cooling_down);
      now += 1us;
      BOOST_TEST(record(l, subject).allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pause_asked_for_behind_the_clock_lasts_if_the_clock_stays_there) {
  const limiter l(store, "vendor", ten, listening);
  cool_down(l, 10s);
  now -= 50s;
  cool_down(l, 30s);
  now += 30s - 1us;
  BOOST_TEST(record(l).cooling_down);
  BOOST_TEST((cool_down(l, 5s).retry_after == 30s));  // shorter than both, so it changes nothing
  now += 50s + 1us;
  BOOST_TEST(record(l).allowed);
}

// The bucket's own time was later than what the cool-down told: nobody learned of the cool-down.
BOOST_AUTO_TEST_CASE(a_full_bucket_does_not_hide_a_pause_behind_a_clock_that_stepped_back) {
  const limiter l(store, "vendor", token_bucket{.capacity = 60, .refill = per_second(1)},
                  listening);
  for (int i = 0; i < 60; ++i) BOOST_TEST(record(l).allowed);
  cool_down(l, 5s);
  now -= 50s;
  BOOST_TEST(record(l).cooling_down);
  BOOST_TEST(fetch(l).cooling_down);
  const decision d = fetch(l);  // the bucket has a unit a second after the time of its requests
  BOOST_TEST((d.retry_after >= 51s && d.retry_after <= 52s && d.reset_after >= 55s));
}

// Three sleeps of an hour, because a header said so, are what happened to others.
BOOST_AUTO_TEST_CASE(a_pause_beyond_the_bound_is_cut_and_told) {
  const limiter l(store, "vendor", ten, {.cool_downs = true, .max_cool_down = 1min});
  const outcome o = outcome_of(
      [&](auto handler) { l.cool_down("a", microseconds::max(), handler); });
  BOOST_TEST(!o.ec);
  BOOST_TEST((o.d.clamped && o.d.retry_after == 1min));
  BOOST_TEST(record(l).cooling_down);
  now += 1min;
  BOOST_TEST(record(l).allowed);
  const decision longest = cool_down(l, 1min);
  BOOST_TEST((!longest.clamped && longest.retry_after == 1min));
}

BOOST_AUTO_TEST_CASE(those_held_back_come_again_at_different_times) {
  const limiter l(store, "vendor", ten, listening);
  for (const auto& [pause, most] : {std::pair<microseconds, microseconds>{5s, 500ms}, {1h, 1s}}) {
    cool_down(l, pause);
    std::set<microseconds> times;
    for (int i = 0; i < 100; ++i) {
      const decision d = record(l);
      BOOST_TEST((d.retry_after >= pause && d.retry_after <= pause + most));
      BOOST_TEST((d.reset_after == pause || d.reset_after == 10s));
      times.insert(d.retry_after);
    }
    BOOST_TEST(times.size() > 50u);
  }
}

BOOST_AUTO_TEST_CASE(what_is_refused_while_held_back_counts_nowhere) {
  const limiter tiered(store, "vendor", tiers(ten, fixed_window{.limit = 100, .window = 1h}),
                       listening);
  BOOST_TEST(record(tiered).allowed);
  cool_down(tiered, 3s);
  for (int i = 0; i < 20; ++i)
    BOOST_TEST(record(tiered).tier == 1);  // it refuses in the name of the last tier
  now += 3s;
  const decision d = record(tiered);
  BOOST_TEST(d.allowed);
  BOOST_TEST(d.remaining == 9);
}

BOOST_AUTO_TEST_CASE(the_longest_refusal_speaks_whether_held_or_not) {
  const limiter l(store, "vendor", fixed_window{.limit = 1, .window = 1h}, listening);
  BOOST_TEST(record(l).allowed);
  cool_down(l, 10s);
  const decision d = record(l);
  BOOST_TEST((!d.allowed && !d.cooling_down));
  BOOST_TEST((d.retry_after == 1h));
  BOOST_TEST(d.tier == -1);
}

BOOST_AUTO_TEST_CASE(several_limiters_at_once_tell_which_one_is_held_back) {
  const limiter whole(store, "vendor", ten, {.group = "g", .cool_downs = true});
  const limiter each(store, "accounts", ten, {.group = "g", .cool_downs = true});
  const auto both = [&] {
    return answer([&](auto handler) { record_all(whole.on("all"), each.on("a"), handler); });
  };
  BOOST_TEST(both().allowed);
  cool_down(each, 10s);
  decision d = both();
  BOOST_TEST((d.cooling_down && d.tier == 1));
  cool_down(whole, 20s, "all");
  d = both();
  BOOST_TEST((d.cooling_down && d.tier == 0));
  BOOST_TEST(d.limit == 10);
  now += 20s;
  BOOST_TEST(both().allowed);
}

BOOST_AUTO_TEST_CASE(reset_ends_it) {
  const limiter l(store, "vendor", ten, listening);
  cool_down(l, 1h);
  answer([&](auto handler) { l.reset("a", [handler](error_code ec) mutable { handler(ec); }); });
  BOOST_TEST(record(l).allowed);
}

BOOST_AUTO_TEST_CASE(a_limiter_without_feedback_says_so) {
  const limiter l(store, "vendor", ten);
  WEIR_TEST_ERROR(outcome_of([&](auto handler) { l.cool_down("a", 1s, handler); }).ec,
                  error::cool_downs_disabled);
  WEIR_TEST_ERROR(respond(l, 200, {}).ec, error::cool_downs_disabled);
  const limiter listens(store, "vendor", ten, listening);
  WEIR_TEST_ERROR(outcome_of([&](auto handler) { listens.cool_down("", 1s, handler); }).ec,
                  error::invalid_subject);
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_are_refused_at_construction) {
  const auto construct = [&](const policy& p, microseconds most) {
    return error_of(
        [&] { limiter(store, "vendor", p, {.cool_downs = true, .max_cool_down = most}); });
  };
  BOOST_TEST(!construct(ten, 24h * 31).failed());
  BOOST_TEST(!construct(ten, 1ms).failed());
  WEIR_TEST_ERROR(construct(ten, 24h * 31 + 1us), error::invalid_policy);
  WEIR_TEST_ERROR(construct(ten, 999us), error::invalid_policy);
  const fixed_window counting{.limit = 1, .window = 1h, .count_refused = true};
  WEIR_TEST_ERROR(construct(counting, 1h), error::invalid_policy);
  const auto usual = [&](microseconds pause, bool feedback = true) {
    return error_of([&] {
      limiter(store, "vendor", ten, {.cool_downs = feedback, .default_cool_down = pause});
    });
  };
  for (const microseconds pause : {0us, -1us, microseconds::min()}) {
    WEIR_TEST_ERROR(usual(pause), error::invalid_policy);
    BOOST_TEST(!usual(pause, false).failed());  // no test asks for it
  }
  for (const microseconds pause : {1us, microseconds(24h * 31), microseconds::max()}) {
    BOOST_TEST(!usual(pause).failed());
  }
  const auto sync = [&](bool feedback) {
    return error_of([&] {
      limiter(store, "vendor", ten,
              {.cool_downs = feedback, .sync_remaining_with = vendor_count::tokens});
    });
  };
  BOOST_TEST(!sync(true).failed());
  WEIR_TEST_ERROR(sync(false), error::invalid_policy);
}

BOOST_AUTO_TEST_CASE(responses_are_read) {
  const limiter l(store, "vendor", ten, {.cool_downs = true, .default_cool_down = 3s});
  BOOST_TEST(respond(l, 200, {}).d.allowed);
  BOOST_TEST(
      respond(l, 200, {{"X-RateLimit-Remaining", "3"}, {"X-RateLimit-Reset", "60"}}).d.allowed);
  BOOST_TEST(record(l).allowed);
  const auto told = [&](int status, const std::vector<header_field>& headers) {
    const outcome o = respond(l, status, headers);
    BOOST_TEST(!o.ec.failed());
    now += 24h;
    return o.d.retry_after;
  };
  BOOST_TEST((told(429, {}) == 3s));
  BOOST_TEST((told(429, {{"retry-after", "12"}}) == 12s));
  // A caller that is told zero and comes at once is told zero again.
  BOOST_TEST((told(429, {{"retry-after", "0"}}) == 3s));
  // "Reset" is here when everything is back, long after the next call would pass.
  BOOST_TEST((told(429, {{"retry-after", "87"},
                         {"x-ratelimit-remaining-requests", "0"},
                         {"x-ratelimit-reset-requests", "24h0m0s"}}) == 87s));
  BOOST_TEST((told(503, {{"Retry-After", "5"}}) == 5s));
  BOOST_TEST((told(200, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "60"}}) == 60s));
  BOOST_TEST(respond(l, 429, {{"Retry-After", "999999"}}).d.clamped);
  now += 24h;

  const decision d = answer([&](auto handler) { l.on_response("a", response{}, handler); });
  BOOST_TEST((d.retry_after == 7s));
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_when_a_response_asks_for_no_pause) {
  const limiter l(store, "vendor", ten, listening);
  store.close();
  BOOST_TEST(respond(l, 200, {}).d.allowed);
  WEIR_TEST_ERROR(respond(l, 429, {}).ec, error::store_closed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cool_down_test
