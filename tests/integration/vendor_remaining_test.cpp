// What a vendor says remains lowers what remains here, in memory and in a real server.
#include "support/limiter_fixture.hpp"

namespace vendor_remaining_test {

using namespace weir;
using namespace weir::test;
using headers = std::vector<header_field>;

const limiter_options following{.cool_downs = true, .sync_remaining_with = vendor_count::requests};

const policy hundred_a_day[] = {
    fixed_window{.limit = 100, .window = 24h},
    sliding_window{.limit = 100, .window = 24h},
    sliding_log{.limit = 100, .window = 24h},
    token_bucket{.capacity = 100, .refill = per_day(1)},
    leaky_bucket{.capacity = 100, .leak = {7, 240h}},
};

struct fixture : server_fixture {
  decision record(const limiter& l, std::int64_t cost = 1) {
    return answer([&](auto h) { l.record("a", {.cost = cost}, h); });
  }
  decision hear(const limiter& l, const headers& said, response_options options = {}) {
    return answer([&](auto h) { l.on_response("a", 200, said, options, h); });
  }
};

BOOST_FIXTURE_TEST_SUITE(vendor_remaining_suite, fixture)

BOOST_AUTO_TEST_CASE(less_there_is_less_here_and_more_there_is_not_more_here) {
  on_both([&](const weir::store& store) {
    for (const policy& p : hundred_a_day) {
      BOOST_TEST_CONTEXT("policy " << p.index()) {
        const limiter l(store, "r" + std::to_string(p.index()), p, following);
        BOOST_TEST(record(l, 20).remaining == 80);
        const decision lowered = hear(l, {{"X-RateLimit-Remaining", "7"}});
        BOOST_TEST(lowered.allowed);
        BOOST_TEST(lowered.limit == 100);
        BOOST_TEST(lowered.remaining == 7);
        BOOST_TEST(hear(l, {{"X-RateLimit-Remaining", "50"}}).remaining == 7);
        BOOST_TEST(record(l, 5).remaining == 2);
        BOOST_TEST(hear(l, {{"X-RateLimit-Remaining", "0"}}).remaining == 0);
        const decision d = record(l);
        BOOST_TEST((!d.allowed && !d.cooling_down));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(it_concerns_the_tier_with_the_limit_that_the_vendor_names) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r",
                    tiers(token_bucket{.capacity = 100, .refill = per_day(1)},
                          fixed_window{.limit = 5000, .window = 24h}),
                    following);
    BOOST_TEST(record(l).remaining == 99);
    // The vendor names the limit of the day: the bucket keeps what it has.
    const headers day{{"X-RateLimit-Limit", "5000"}, {"X-RateLimit-Remaining", "98"}};
    BOOST_TEST(hear(l, day).remaining == 98);
    BOOST_TEST(record(l).remaining == 97);
    BOOST_TEST(answer([&](auto h) { l.fetch("a", {.cost = 98}, h); }).tier == 1);
    // A vendor with more to give than anybody may take here.
    const headers ample{{"X-RateLimit-Limit", "200"}, {"X-RateLimit-Remaining", "1000000"}};
    BOOST_TEST(hear(l, ample).allowed);
    BOOST_TEST(answer([&](auto h) { l.fetch("a", h); }).remaining == 97);
    // The vendor names a limit that no tier has: it concerns those with a smaller one.
    const headers hour{{"X-RateLimit-Limit", "200"}, {"X-RateLimit-Remaining", "3"}};
    BOOST_TEST(hear(l, hour).remaining == 3);
    const decision d = answer([&](auto h) { l.fetch("a", {.cost = 4}, h); });
    BOOST_TEST(d.tier == 0);
    BOOST_TEST(d.limit == 100);
  });
}

// One answer to a search ("29 of 30 left in this minute") left 29 of 5,000 calls for the hour, in
// all processes; that of a window of 10 s stopped all calls until the next day.
BOOST_AUTO_TEST_CASE(what_is_left_of_a_smaller_window_lowers_no_larger_one) {
  on_both([&](const weir::store& store) {
    const limiter hourly(store, "r", fixed_window{.limit = 5000, .window = 1h}, following);
    BOOST_TEST(record(hourly).remaining == 4999);
    hear(hourly, {{"X-RateLimit-Limit", "30"}, {"X-RateLimit-Remaining", "29"}});
    BOOST_TEST(record(hourly).remaining == 4998);
    const limiter strict(store, "s",
                         tiers(fixed_window{.limit = 90, .window = 24h},
                               fixed_window{.limit = 225'000, .window = 24h}),
                         following);
    hear(strict, {{"X-RateLimit-Limit", "100"}, {"X-RateLimit-Remaining", "5"}});
    BOOST_TEST(record(strict, 5).remaining == 0);
    const decision d = record(strict);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.tier == 0);
  });
}

// What was left of a window that has ended was taken from the next one.
BOOST_AUTO_TEST_CASE(what_is_left_of_a_window_that_is_over_lowers_nothing) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", hundred_a_day[0], following);
    BOOST_TEST(record(l).remaining == 99);
    hear(l, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "0"}});
    hear(l, {{"X-RateLimit-Remaining", "1"}, {"X-RateLimit-Reset", "0"}});
    BOOST_TEST(record(l).remaining == 98);
    hear(l, {{"X-RateLimit-Remaining", "1"}, {"X-RateLimit-Reset", "1"}});
    BOOST_TEST(record(l).remaining == 0);
  });
}

BOOST_AUTO_TEST_CASE(a_limiter_that_counts_tokens_follows_tokens) {
  on_both([&](const weir::store& store) {
    const policy p = token_bucket{.capacity = 10'000, .refill = per_day(1)};
    const headers said{{"x-ratelimit-remaining-requests", "3"},
                       {"x-ratelimit-remaining-tokens", "700"}};
    const limiter tokens(store, "t", p,
                         {.cool_downs = true, .sync_remaining_with = vendor_count::tokens});
    BOOST_TEST(hear(tokens, said).remaining == 700);
    const limiter requests(store, "r", p, following);
    BOOST_TEST(hear(requests, said).remaining == 3);
  });
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_for_what_is_known_already) {
  weir::store store = make_redis_store(io.get_executor(), patient_options(server));
  const limiter l(store, "r", hundred_a_day[0], following);
  const limiter unheeding(store, "r", hundred_a_day[0], {.cool_downs = true});
  const decision d = record(l, 20);
  store.close();
  const headers said{{"X-RateLimit-Remaining", "80"}};
  BOOST_TEST(hear(l, said, {.known_remaining = d.remaining}).allowed);
  BOOST_TEST(hear(unheeding, said).allowed);
  crowd c;
  l.on_response("a", 200, said, {.known_remaining = 81}, c.caller());
  l.on_response("a", 200, said, c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.failed(error::store_closed) == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace vendor_remaining_test
