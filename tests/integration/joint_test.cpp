// Several limits at once, the same on every store: tiers of one limiter, and several limiters in
// one record_all.
#include <boost/test/data/test_case.hpp>
#include <thread>

#include "support/limiter_fixture.hpp"

namespace joint_test {

using namespace weir;
using namespace weir::test;
namespace data = boost::unit_test::data;

const auto stores = data::make({"memory", "tcp"});

fixed_window window(std::int64_t limit) { return {.limit = limit, .window = 24h}; }
token_bucket bucket(std::int64_t capacity) { return {.capacity = capacity, .refill = per_day(1)}; }

struct fixture : limiter_fixture {
  weir::store open(const std::string& store) {
    return open_store(io.get_executor(), empty_store_url(store));
  }
  decision record(const limiter& l, std::string_view subject, std::int64_t cost = 1) {
    return answer([&](auto handler) { l.record(subject, {.cost = cost}, handler); });
  }
  decision fetch(const limiter& l, std::string_view subject) {
    return answer([&](auto handler) { l.fetch(subject, handler); });
  }
  decision record(const claim& a, const claim& b) {
    return answer([&](auto handler) { record_all(a, b, handler); });
  }
  void refused_to_combine(const claim& a, const claim& b) {
    const outcome o = outcome_of([&](auto handler) { record_all(a, b, handler); });
    WEIR_TEST_ERROR(o.ec, error::cannot_combine);
  }
};

// record_all() took a max_wait, and did not wait.
template <class Options>
concept has_max_wait = requires(const Options& o) { o.max_wait; };
static_assert(!has_max_wait<joint_options> && has_max_wait<joint_acquire_options>);

BOOST_FIXTURE_TEST_SUITE(joint_suite, fixture)

BOOST_DATA_TEST_CASE_F(fixture, a_tier_that_refuses_is_named_and_none_has_counted, stores, store) {
  const limiter l(open(store), "r", weir::tiers{window(5), bucket(3), sliding_log{4, 24h}});
  for (int i = 1; i <= 3; ++i) {
    const decision d = record(l, "s");
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.tier == -1);
    BOOST_TEST(d.limit == 3);  // the bucket has the least left
    BOOST_TEST(d.remaining == 3 - i);
  }
  for (int i = 0; i < 4; ++i) {
    const decision d = record(l, "s");
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.tier == 1);
    BOOST_TEST((d.retry_after > 23h));
  }
  const decision other = record(l, "another subject", 3);
  BOOST_TEST(other.allowed);
  BOOST_TEST(!fetch(l, "s").allowed);
  // The refused ones are in none of them.
  const limiter first(l);
  answer([&](auto handler) { l.reset("s", [handler](error_code ec) mutable { handler(ec); }); });
  const decision fresh = fetch(l, "s");
  BOOST_TEST(fresh.allowed);
  BOOST_TEST(fresh.used == 0);
  BOOST_TEST(fresh.remaining == 3);
}

BOOST_DATA_TEST_CASE_F(fixture, what_one_limiter_refuses_none_of_them_counts, stores, store) {
  const weir::store s = open(store);
  const limiter total(s, "total", window(100), {.group = "partner"});
  const limiter each(s, "each", bucket(2), {.group = "partner"});
  for (int i = 0; i < 10; ++i) BOOST_TEST(record(total.on("all"), each.on("a")).allowed == (i < 2));
  BOOST_TEST(fetch(total, "all").used == 2);
  BOOST_TEST(fetch(each, "a").used == 2);
  BOOST_TEST(record(each.on("b"), total.on("all")).allowed);
  BOOST_TEST(fetch(total, "all").used == 3);
  // Each may cost its own.
  BOOST_TEST(record(total.on("all", 97), each.on("c", 2)).allowed);
  BOOST_TEST(fetch(total, "all").remaining == 0);
  const decision d = record(total.on("all"), each.on("d"));
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.tier == 0);
  BOOST_TEST(fetch(each, "d").used == 0);
}

BOOST_DATA_TEST_CASE_F(fixture, fetch_all_changes_nothing, stores, store) {
  const weir::store s = open(store);
  const limiter a(s, "a", window(2), {.group = "g"});
  const limiter b(s, "b", bucket(1), {.group = "g"});
  for (int i = 0; i < 3; ++i) {
    const decision d = answer([&](auto handler) { fetch_all(a.on("x"), b.on("x"), handler); });
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.used == 0);
    BOOST_TEST(d.remaining == 1);
  }
  BOOST_TEST(record(a.on("x"), b.on("x")).allowed);
  const decision d = answer([&](auto handler) { fetch_all(a.on("x"), b.on("x"), handler); });
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.tier == 1);
}

BOOST_DATA_TEST_CASE_F(fixture,
                       limiters_that_do_not_belong_together_are_refused_before_anything_is_sent,
                       stores, store) {
  const weir::store s = open(store);
  const limiter a(s, "a", window(2), {.group = "g"});
  const limiter other_group(s, "b", window(2), {.group = "h"});
  const limiter no_group(s, "c", window(2));
  const limiter hammered(s, "d", fixed_window{.limit = 1, .window = 1h, .count_refused = true},
                         {.group = "g"});
  const limiter elsewhere(open_store(io.get_executor(), "memory://"), "e", window(2),
                          {.group = "g"});
  refused_to_combine(a.on("x"), other_group.on("x"));
  refused_to_combine(a.on("x"), no_group.on("x"));
  refused_to_combine(a.on("x"), hammered.on("x"));
  refused_to_combine(hammered.on("x"), a.on("x"));
  refused_to_combine(a.on("x"), elsewhere.on("x"));
  refused_to_combine(a.on("x"), a.on("x"));  // one key twice
  BOOST_TEST(record(a.on("x"), a.on("y")).allowed);
  BOOST_TEST(fetch(a, "x").used == 1);
  // One resource and subject is one slot, without a group.
  const limiter c2(s, "c", bucket(2));
  BOOST_TEST(record(no_group.on("x"), c2.on("x")).allowed);
  refused_to_combine(no_group.on("x"), c2.on("y"));

  std::vector<claim> many;
  std::vector<std::string> names;
  for (int i = 0; i < 17; ++i) names.push_back(std::to_string(i));
  for (const std::string& name : names) many.push_back(a.on(name));
  outcome o = outcome_of([&](auto handler) { record_all(std::span(many), {}, handler); });
  WEIR_TEST_ERROR(o.ec, error::cannot_combine);
  many.pop_back();
  o = outcome_of([&](auto handler) { record_all(std::span(many), {}, handler); });
  BOOST_TEST(!o.ec.failed());
  BOOST_TEST(o.d.allowed);
  BOOST_CHECK_THROW(static_cast<void>(record_all(std::span<const claim>())), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(each_claim_is_validated) {
  const weir::store s = open_store(io.get_executor(), "memory://");
  const limiter a(s, "a", window(9), {.group = "g"});
  const limiter b(s, "b", window(2), {.group = "g"});
  const auto error_of = [&](const claim& x, const claim& y) {
    return outcome_of([&](auto handler) { record_all(x, y, handler); }).ec;
  };
  WEIR_TEST_ERROR(error_of(a.on("x", 3), b.on("x", 3)), error::cost_exceeds_limit);
  WEIR_TEST_ERROR(error_of(a.on("x"), b.on("")), error::invalid_subject);
  WEIR_TEST_ERROR(error_of(a.on("x"), b.on("x", 0)), error::invalid_cost);
  const auto code = weir::test::error_of([&] {
    limiter(s, "t",
            weir::tiers{window(1), fixed_window{.limit = 1, .window = 1h, .count_refused = true}});
  });
  WEIR_TEST_ERROR(code, error::invalid_policy);
}

// All of them leave in one write or two: joined, and answered each at its own place.
BOOST_DATA_TEST_CASE_F(fixture, a_crowd_gets_exactly_what_all_limits_allow, stores, store) {
  const weir::store s = open(store);
  const limiter total(s, "total", sliding_log{250, 24h}, {.group = "g"});
  const limiter each(s, "each", bucket(40), {.group = "g"});
  const limiter both(s, "both", weir::tiers{window(30), bucket(20)});
  const std::string names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  crowd joint, tiered, single;
  for (int i = 0; i < 1000; ++i) {
    const std::string& name = names[i % 8];
    record_all(total.on("all"), each.on(name), joint.caller());
    both.record(name, tiered.caller());
    // Between them, on keys of the joint ones: order is kept, nothing is counted twice.
    if (i % 100 == 0) each.record(name, single.caller());
  }
  run_until_complete(io, joint);
  run_until_complete(io, tiered);
  run_until_complete(io, single);
  BOOST_TEST(joint.allowed() == 250U);
  BOOST_TEST(joint.refused() == 750U);
  BOOST_TEST(tiered.allowed() == 8U * 20U);
  BOOST_TEST(fetch(total, "all").used == 250);
  std::int64_t used = 0;
  for (const std::string& name : names) used += fetch(each, name).used;
  BOOST_TEST(used == 250 + static_cast<std::int64_t>(single.allowed()));
  for (const auto& o : joint) BOOST_TEST(o.times == 1);
}

// They did for two claims, and for three in some of the calls.
BOOST_AUTO_TEST_CASE(options_in_braces_go_with_any_form_of_claims) {
  const weir::store s = open("memory");
  std::vector<limiter> l;
  for (const char* name : {"a", "b", "c", "d"})
    l.emplace_back(s, name, window(9), limiter_options{.group = "g"});
  const auto on = [&](std::size_t i) { return l[i].on("x"); };
  const std::vector all{on(0), on(1), on(2), on(3)};
  run(io, [&]() -> asio::awaitable<void> {
    const auto token = asio::as_tuple(asio::deferred);
    const decision one = co_await record_all(on(0), {.timeout = 9s});
    const auto two = co_await acquire_all(on(0), on(1), {.max_wait = 0s});
    const auto three = co_await record_all(on(0), on(1), on(2), {.timeout = 9s});
    const auto [ec, four] = co_await record_all(on(0), on(1), on(2), on(3), {}, token);
    const auto listed = co_await record_all(all, {.timeout = 9s});
    BOOST_TEST((co_await fetch_all(on(0), {.timeout = 9s})).used == 5);
    BOOST_TEST((co_await settle_all(one, on(0), {.timeout = 9s})).allowed);
    BOOST_TEST((co_await refund_all(two, on(0), on(1), {.timeout = 9s})).allowed);
    BOOST_TEST((co_await refund_all(three, on(0), on(1), on(2), {.timeout = 9s})).allowed);
    BOOST_TEST((co_await refund_all(four, all, {.timeout = 9s})).allowed);
    BOOST_TEST((co_await refund_all(listed, on(0), on(1), on(2), on(3), {})).allowed);
    BOOST_TEST((co_await fetch_all(on(0), {.timeout = 9s})).used == 1);
  });
}

BOOST_AUTO_TEST_CASE(keys_of_a_group_share_one_hash_tag_and_each_has_a_ttl) {
  redis_server server;
  redis_client client(server);
  const weir::store s = open_store(io.get_executor(), server.url() + "?timeout=50s");
  const limiter a(s, "a", weir::tiers{window(5), window(9)}, {.group = "g{1}"});
  const limiter b(s, "b", bucket(3), {.group = "g{1}"});
  BOOST_TEST(record(a.on("x"), b.on("y:z")).allowed);
  std::vector<std::string> keys = keys_of(client);
  std::sort(keys.begin(), keys.end());
  const std::vector<std::string> expected{"weir:{g%7B1%7D}:a:x:f", "weir:{g%7B1%7D}:a:x:f1",
                                          "weir:{g%7B1%7D}:b:y:z:m"};
  BOOST_TEST(keys == expected, boost::test_tools::per_element());
  for (const std::string& key : keys) BOOST_TEST(client.must("PTTL", key).integer > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace joint_test
