// refund() and settle(), in memory and in a real server.
#include "support/limiter_fixture.hpp"

namespace settle_test {

using namespace weir;
using namespace weir::test;

// settle("a", d, 12.7) settled 12.
template <class Cost>
concept is_cost = requires(const limiter& l, const decision& d, Cost cost) {
  l.settle("a", d, cost);
  l.on("a", cost);
};
template <class Cost>
concept is_lost = !requires(const limiter& l, const decision& d, Cost cost) {
  l.settle("a", d, cost);
} && !requires(const limiter& l, Cost cost) { l.on("a", cost); };
static_assert(is_cost<int> && is_cost<std::int64_t> && is_lost<double>);

/// None of them lets anything through again within a test.
const policy ten_a_day[] = {
    fixed_window{.limit = 10, .window = 24h}, sliding_window{.limit = 10, .window = 24h},
    sliding_log{.limit = 10, .window = 24h},  token_bucket{.capacity = 10, .refill = per_day(10)},
    gcra{.rate = per_day(10), .burst = 10},
};

struct fixture : server_fixture {
  /// With each policy, in each store.
  template <class F>
  void with_each(F&& f) {
    on_both([&](const weir::store& store) {
      for (const policy& p : ten_a_day) {
        BOOST_TEST_CONTEXT("policy " << p.index()) {
          f(limiter(store, "r" + std::to_string(p.index()), p));
        }
      }
    });
  }
  decision record(const limiter& l, std::int64_t cost = 1, std::string_view subject = "a") {
    return answer([&](auto caller) { l.record(subject, {.cost = cost}, caller); });
  }
  decision fetch(const limiter& l) {
    return answer([&](auto caller) { l.fetch("a", caller); });
  }
  decision refund(const limiter& l, const decision& d) {
    return answer([&](auto caller) { l.refund("a", d, caller); });
  }
  decision settle(const limiter& l, const decision& d, std::int64_t actual) {
    return answer([&](auto caller) { l.settle("a", d, actual, caller); });
  }
};

BOOST_FIXTURE_TEST_SUITE(settle_suite, fixture)

// A refund under a window of 7 s cut the TTL of a key from a minute to 16 s. Then the counts of the
// minute were gone.
BOOST_AUTO_TEST_CASE(a_refund_under_a_shorter_window_keeps_the_key_of_a_longer_one) {
  const weir::store store = open();
  redis_client client(server);
  const limiter longer(store, "r", fixed_window{.limit = 100, .window = 24h});
  const limiter shorter(store, "r", fixed_window{.limit = 100, .window = 1h});
  record(longer, 5);
  const std::string key = keys_of(client).at(0);
  BOOST_TEST(refund(shorter, record(shorter)).allowed);
  BOOST_TEST(fetch(longer).used == 5);
  const auto hours_left = client.must("PTTL", key).integer / 1000 / 3600;
  BOOST_TEST(hours_left >= 23);
}

BOOST_AUTO_TEST_CASE(what_was_taken_is_given_back_once) {
  with_each([&](const limiter& l) {
    record(l, 3);
    const decision d = record(l, 5);
    BOOST_TEST(d.remaining == 2);
    const decision back = refund(l, d);
    BOOST_TEST(back.allowed);
    BOOST_TEST(back.used == 3);
    BOOST_TEST(back.remaining == 7);
    BOOST_TEST(back.limit == 10);
    BOOST_TEST(!refund(l, d).allowed);
    BOOST_TEST(!settle(l, d, 9).allowed);
    BOOST_TEST(fetch(l).remaining == 7);
    BOOST_TEST(record(l, 7).allowed);
    BOOST_TEST(!record(l).allowed);
  });
}

// A bucket took what had been given back for others' turns: of ten, with one in use and all else
// refunded at once, it said 1 1 3 3 5 5 7 7 9 9 10, and then refused.
BOOST_AUTO_TEST_CASE(refunds_do_not_run_dry) {
  const auto refund_in_turns = [&](const limiter& l) {
    record(l);
    for (int i = 0; i < 20; ++i) {
      const decision first = record(l, 2), second = record(l, 3);
      refund(l, i % 2 == 0 ? first : second);
      BOOST_TEST(refund(l, i % 2 == 0 ? second : first).used == 1);
    }
    BOOST_TEST(record(l, 9).allowed);
  };
  with_each(refund_in_turns);
  on_both([&](const weir::store& store) {
    refund_in_turns({store, "r", tiers(gcra{.rate = per_day(20), .burst = 20}, ten_a_day[3])});
  });
}

// 723 cancelled turns left a bucket of 500 full, with 110 units in use.
BOOST_AUTO_TEST_CASE(reservations_that_nobody_used_leave_the_bucket_as_it_was) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", token_bucket{.capacity = 500, .refill = per_hour(500)},
                    {.group = "all"});
    record(l, 110);
    std::deque<asio::cancellation_signal> signals(723);
    crowd c;
    for (asio::cancellation_signal& s : signals) {
      l.acquire("a", {.cost = 400, .max_wait = 24h * 31},
                asio::bind_cancellation_slot(s.slot(), c.caller()));
    }
    // All have reserved when so much is ahead; they leave in some order.
    const auto until = [&](auto&& holds) {
      for (int i = 0; i < 100'000 && !holds(fetch(l)); ++i) continue;
      BOOST_REQUIRE(holds(fetch(l)));
    };
    until([](const decision& d) { return d.reset_after > 1h * 722 * 400 / 500; });
    for (std::size_t i = 0; i < signals.size(); ++i) {
      signals[i * 97 % signals.size()].emit(asio::cancellation_type::terminal);
    }
    run_until_complete(io, c);
    until([](const decision& d) { return d.used <= 110; });
    BOOST_TEST(record(l, 390).allowed);
  });
}

BOOST_AUTO_TEST_CASE(of_many_who_settle_at_once_one_does) {
  with_each([&](const limiter& l) {
    record(l, 2);
    const decision d = record(l, 5);
    crowd c;
    for (int i = 0; i < 100; ++i) l.refund("a", d, c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 1u);
    BOOST_TEST(c.refused() == 99u);
    BOOST_TEST(fetch(l).remaining == 8);
  });
}

BOOST_AUTO_TEST_CASE(what_was_not_used_is_given_back_and_an_even_settlement_is_one_too) {
  with_each([&](const limiter& l) {
    std::int64_t left = 10;
    for (const auto& [taken, actual] : {std::pair(8, 3), std::pair(4, 4)}) {
      const decision d = record(l, taken);
      BOOST_TEST(settle(l, d, actual).remaining == (left -= actual));
      BOOST_TEST(!settle(l, d, 1).allowed);
      BOOST_TEST(!refund(l, d).allowed);
      BOOST_TEST(fetch(l).remaining == left);
      answer([&](auto h) { l.reset("a", [h](error_code ec) mutable { h(ec); }); });
      left = 10;
    }
  });
}

BOOST_AUTO_TEST_CASE(what_was_used_beyond_is_charged_into_debt) {
  with_each([&](const limiter& l) {
    const decision d = record(l, 4);
    BOOST_TEST(settle(l, d, 9).remaining == 1);
    const decision e = record(l, 1);
    const decision in_debt = settle(l, e, 21);
    BOOST_TEST(in_debt.allowed);
    BOOST_TEST(in_debt.remaining == 0);
    const decision refused = record(l, 1);
    BOOST_TEST(!refused.allowed);
    // A bucket of ten units a day needs two days for 20 units, and a little more for another one.
    if (l.resource() == "r3" || l.resource() == "r4") {
      BOOST_TEST((refused.retry_after > 49h));
      BOOST_TEST((refused.retry_after < 51h));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_reservation_that_was_waited_for_can_be_settled) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", token_bucket{.capacity = 10, .refill = {10, 1s}});
    record(l, 10);
    const decision d = answer([&](auto caller) { l.acquire("a", {.cost = 2}, caller); });
    BOOST_TEST((d.delay > 0us));
    BOOST_TEST(settle(l, d, 1000).remaining == 0);
    BOOST_TEST((record(l, 1).retry_after > 90s));
    BOOST_TEST(!refund(l, d).allowed);
  });
}

// The answer was zeros: nothing in use, and nothing left.
BOOST_AUTO_TEST_CASE(settling_what_took_nothing_tells_how_the_subject_stands) {
  with_each([&](const limiter& l) {
    record(l, 7);
    const decision refused = record(l, 4);
    BOOST_TEST(!refused.allowed);
    for (const decision& d : {refused, decision{}, fetch(l)}) {
      for (const decision& answered : {refund(l, d), settle(l, d, 5), settle(l, d, 0)}) {
        BOOST_TEST(!answered.allowed);
        BOOST_TEST(answered.limit == 10);
        BOOST_TEST(answered.used == 7);
        BOOST_TEST(answered.remaining == 3);
        BOOST_TEST((answered.reset_after > 0us));
        BOOST_TEST((answered.retry_after == 0us));
        BOOST_TEST(answered.receipt.id == 0u);
      }
    }
    BOOST_TEST(record(l, 3).allowed);
    BOOST_TEST(!record(l, 1).allowed);
  });
}

// The subject is new, or it has tiers and a cool-down: nothing is written.
BOOST_AUTO_TEST_CASE(settling_what_took_nothing_writes_nothing) {
  const limiter l(open(false), "r",
                  tiers(token_bucket{.capacity = 20, .refill = per_day(20)},
                        fixed_window{.limit = 10, .window = 24h}),
                  {.cool_downs = true});
  const decision idle = refund(l, decision{});
  BOOST_TEST(!idle.allowed);
  BOOST_TEST(idle.limit == 10);
  BOOST_TEST(idle.remaining == 10);
  BOOST_TEST(client.must("DBSIZE").integer == 0);
}

// A server that evicted the marker let one decision be refunded three times.
BOOST_AUTO_TEST_CASE(a_process_settles_a_decision_once_though_its_marker_was_evicted) {
  const weir::store store = open(false);
  for (const policy& p : ten_a_day) {
    BOOST_TEST_CONTEXT("policy " << p.index()) {
      const limiter l(store, "r" + std::to_string(p.index()), p);
      record(l, 3);
      const decision d = record(l, 3);
      BOOST_TEST(refund(l, d).allowed);
      const auto markers = client.must("KEYS", "weir:{*}:s*").children;
      BOOST_TEST_REQUIRE(markers.size() == 1u);
      client.must("DEL", markers[0].text);
      // Also through another store of the process.
      for (const limiter& again : {l, limiter(open(false), l.resource(), p)}) {
        const decision second = refund(again, d);
        BOOST_TEST(!second.allowed);
        BOOST_TEST(second.used == 3);
        BOOST_TEST(!settle(again, d, 9).allowed);
      }
      BOOST_TEST(fetch(l).used == 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_decision_is_settled_where_it_was_made) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", ten_a_day[0]);
    const limiter other_resource(store, "s", ten_a_day[0]);
    const limiter other_policy(store, "r", fixed_window{.limit = 11, .window = 24h});
    const limiter same(store, "r", ten_a_day[0]);
    // All numbers are the same, and a leaky bucket takes less back.
    const limiter bucket(store, "b", token_bucket{10, per_day(10)});
    const limiter queue(store, "b", leaky_bucket{10, per_day(10)});
    const decision of_queue = record(queue, 4);
    const auto of_bucket = outcome_of([&](auto h) { bucket.settle("a", of_queue, 0, h); });
    WEIR_TEST_ERROR(of_bucket.ec, error::cannot_settle);
    decision d = record(l, 4);
    const auto error_of = [&](const limiter& of, std::string_view subject, std::int64_t actual) {
      return outcome_of([&](auto caller) { of.settle(subject, d, actual, caller); }).ec;
    };
    WEIR_TEST_ERROR(error_of(other_resource, "a", 0), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(other_policy, "a", 0), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(l, "b", 0), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(l, "", 0), error::invalid_subject);
    WEIR_TEST_ERROR(error_of(l, "a", -1), error::invalid_cost);
    WEIR_TEST_ERROR(error_of(l, "a", max_units + 1), error::invalid_cost);
    BOOST_TEST(fetch(l).remaining == 6);
    BOOST_TEST(refund(same, d).remaining == 10);

    const limiter counts_all(store, "t",
                             fixed_window{.limit = 10, .window = 24h, .count_refused = true});
    d = record(counts_all, 4);
    BOOST_TEST(d.receipt.id == 0u);
    BOOST_TEST(!refund(counts_all, d).allowed);
  });
}

// A program may keep decisions where others can write. With such times, Memcached remembered the
// settlement until a time that it could not read, and then answered no call of the subject. A
// refund of a damaged bucket left a part of -450,359,962 units in it, for all callers.
BOOST_AUTO_TEST_CASE(a_decision_with_impossible_numbers_is_not_settled) {
  static constexpr std::chrono::microseconds never{std::int64_t{1} << 53};
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  using bucket = receipt::bucket;
  const std::function<void(decision&, bucket&)> spoil[] = {
      [](decision& s, bucket&) { s.reset_after = never; },
      [](decision& s, bucket&) { s.reset_after = -1us; },
      [](decision& s, bucket&) { s.delay = never; },
      [](decision& s, bucket&) { s.decided_at += never; },
      [](decision& s, bucket&) { s.decided_at = {}, s.decided_at -= 1us; },
      [](decision& s, bucket&) { s.receipt.counted_at = -1; },
      [](decision&, bucket& b) { b.part = std::int64_t{1} << 52; },
      [](decision&, bucket& b) { b.part = 3; },
      [](decision&, bucket& b) { b.part = -1; },
      [](decision&, bucket& b) { b.whole = most; },
      [](decision&, bucket& b) { b.whole = -1; },
      [](decision&, bucket& b) { b.returned = most; },
      [](decision&, bucket& b) { b.returned = -most; },
  };
  on_both([&](const weir::store& store) {
    // T is 10/3 s: in parts of a microsecond.
    const limiter l(store, "r", gcra{.rate = {3, 10s}, .burst = 10});
    const decision d = record(l, 4);
    record(l, 1);
    for (const auto& one : spoil) {
      BOOST_TEST_CONTEXT("row " << &one - spoil) {
        decision spoilt = d;
        one(spoilt, spoilt.receipt.buckets[0]);
        WEIR_TEST_ERROR(outcome_of([&](auto caller) { l.refund("a", spoilt, caller); }).ec,
                        error::cannot_settle);
      }
    }
    BOOST_TEST(fetch(l).used == 5);
    BOOST_TEST(refund(l, d).allowed);
    BOOST_TEST(fetch(l).used < 5);
  });
}

BOOST_AUTO_TEST_CASE(what_was_settled_is_remembered_in_a_key_that_goes_by_itself) {
  const limiter l(open(false), "r", fixed_window{.limit = 10, .window = 1h});
  const limiter brief(open(false), "s", fixed_window{.limit = 10, .window = 1s});
  refund(l, record(l, 4));
  refund(brief, record(brief, 4));
  std::vector<std::string> markers;
  for (const auto& key : client.must("KEYS", "weir:{*}:s*").children) markers.push_back(key.text);
  std::sort(markers.begin(), markers.end());
  BOOST_TEST_REQUIRE(markers.size() == 2u);
  BOOST_TEST(markers[0].starts_with("weir:{r:a}:s"));
  BOOST_TEST(markers[1].starts_with("weir:{s:a}:s"));
  const auto ttl = [&](const std::string& key) { return client.must("PTTL", key).integer; };
  BOOST_TEST(ttl(markers[0]) <= 3'602'000);  // 2 s of grace, as for the state
  BOOST_TEST(ttl(markers[1]) > 30'000);  // a minute at the least, for a settlement that is repeated
  BOOST_TEST(ttl(markers[1]) <= 60'000);
}

BOOST_AUTO_TEST_CASE(a_key_of_something_else_is_said_and_left_alone) {
  const limiter l(open(false), "r", ten_a_day[2]);
  const decision d = record(l, 4);
  client.must("SET", "weir:{r:a}:l", "something else");
  WEIR_TEST_ERROR(outcome_of([&](auto caller) { l.refund("a", d, caller); }).ec, error::wrong_type);
  BOOST_TEST(client.must("GET", "weir:{r:a}:l").text == "something else");
}

BOOST_AUTO_TEST_CASE(failure_policies_do_not_apply) {
  const limiter l(open(false), "r", ten_a_day[0], {.on_failure = on_failure::open});
  const decision d = record(l, 4);
  server.kill();
  const settle_options briefly{.timeout = 50ms};
  const outcome o = outcome_of([&](auto caller) { l.refund("a", d, briefly, caller); });
  BOOST_TEST(o.ec.failed());
  BOOST_TEST(!o.d.allowed);
  const decision unseen = answer([&](auto c) { l.record("a", {.timeout = 50ms}, c); });
  BOOST_TEST((unseen.source == source::fallback));
  // It took nothing in the store, which is asked how the subject stands.
  BOOST_TEST(outcome_of([&](auto caller) { l.refund("a", unseen, briefly, caller); }).ec.failed());
}

// During a cool-down, the answer said that nothing was used of no limit.
BOOST_AUTO_TEST_CASE(the_answer_describes_the_subject_during_a_cool_down) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r",
                    tiers(fixed_window{.limit = 10, .window = 24h},
                          token_bucket{.capacity = 99, .refill = per_day(1)}),
                    {.cool_downs = true});
    const decision d = record(l, 4);
    answer([&](auto caller) { l.cool_down("a", 1h, caller); });
    const decision settled = settle(l, d, 3);
    BOOST_TEST(settled.allowed);
    BOOST_TEST(settled.limit == 10);
    BOOST_TEST(settled.used == 3);
    BOOST_TEST(settled.remaining == 0);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settle_test
