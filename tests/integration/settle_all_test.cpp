// settle_all() and refund_all(), in memory and in a real server.
#include "settle_all_fixture.hpp"
#include "support/leases.hpp"

namespace settle_all_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(settle_all_suite, settle_all_fixture)

BOOST_AUTO_TEST_CASE(each_limiter_settles_what_the_call_really_cost_there) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    record(requests.on("a", 2), tokens.on("a", 100));
    const joint_decision d = record(requests.on("a", 3), tokens.on("a", 400));
    BOOST_TEST(used(requests) == 5);
    BOOST_TEST(used(tokens) == 500);
    // One gives back, while the other is charged; and then the other way round.
    decision now = settle(d, requests.on("a", 1), tokens.on("a", 450));
    BOOST_TEST(now.allowed);
    BOOST_TEST(now.limit == 10);  // it has the least left
    BOOST_TEST(now.remaining == 7);
    BOOST_TEST(used(requests) == 3);
    BOOST_TEST(used(tokens) == 550);
    const joint_decision e = record(requests.on("a", 1), tokens.on("a", 400));
    now = settle(e, requests.on("a", 2), tokens.on("a", 0));
    BOOST_TEST(now.allowed);
    BOOST_TEST(now.remaining == 5);
    BOOST_TEST(used(requests) == 5);
    BOOST_TEST(used(tokens) == 550);
    // As many as were taken: nothing changes there.
    const joint_decision f = record(requests.on("a", 1), tokens.on("a", 400));
    settle(f, requests.on("a", 1), tokens.on("a", 399));
    BOOST_TEST(used(requests) == 6);
    BOOST_TEST(used(tokens) == 949);
    BOOST_TEST(record(requests.on("a", 4), tokens.on("a", 51)).allowed);
    BOOST_TEST(!record(requests.on("b", 1), tokens.on("a", 1)).allowed);
  });
}

BOOST_AUTO_TEST_CASE(a_decision_of_several_limiters_is_settled_once) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    record(requests.on("a"), tokens.on("a", 100));
    const joint_decision d = record(requests.on("a", 2), tokens.on("a", 400));
    BOOST_TEST(settle(d, requests.on("a", 1), tokens.on("a", 200)).allowed);
    for (const decision& again : {settle(d, requests.on("a", 1), tokens.on("a", 200)),
                                  settle(d, requests.on("a", 9), tokens.on("a", 0)),
                                  refund(d, requests.on("a"), tokens.on("a"))}) {
      BOOST_TEST(!again.allowed);
      BOOST_TEST(again.remaining == 8);
    }
    BOOST_TEST(used(requests) == 2);
    BOOST_TEST(used(tokens) == 300);
  });
}

BOOST_AUTO_TEST_CASE(of_many_who_settle_several_limiters_at_once_one_does) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    const joint_decision d = record(requests.on("a", 5), tokens.on("a", 500));
    crowd c;
    for (int i = 0; i < 50; ++i) {
      settle_all(d, requests.on("a", 4), tokens.on("a", 600), c.caller());
      refund_all(d, requests.on("a"), tokens.on("a"), c.caller());
    }
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 1u);
    BOOST_TEST(c.refused() == 99u);
    BOOST_TEST(used(requests) == 4);
    BOOST_TEST(used(tokens) == 600);
  });
}

BOOST_AUTO_TEST_CASE(one_marker_in_the_slot_of_the_group_remembers_it) {
  const weir::store store = open(false);
  const limiter requests(store, "requests", fixed_window{.limit = 10, .window = 1h}, together);
  const limiter tokens(store, "tokens", token_bucket{1000, per_hour(1000)}, together);
  const joint_decision d = record(requests.on("a"), tokens.on("a", 500));
  BOOST_TEST(settle(d, requests.on("a"), tokens.on("a", 100)).allowed);
  BOOST_TEST_REQUIRE(markers().size() == 1u);
  BOOST_TEST(markers()[0].starts_with("weir:{model}:requests:a:s"));
  // As long as anything could be given back, and 2 s of grace.
  const auto ttl = client.must("PTTL", markers()[0]).integer;
  BOOST_TEST(ttl > 3'000'000);
  BOOST_TEST(ttl <= 3'602'000);
  client.must("DEL", markers()[0]);
  // This process knows it even so.
  BOOST_TEST(!refund(d, requests.on("a"), tokens.on("a")).allowed);
  BOOST_TEST(used(tokens) == 100);
}

BOOST_AUTO_TEST_CASE(all_is_given_back_whatever_the_claims_cost) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    record(requests.on("a", 2), tokens.on("a", 100));
    const joint_decision d = record(requests.on("a", 3), tokens.on("a", 400));
    const decision back = refund(d, requests.on("a"), tokens.on("a", 7));
    BOOST_TEST(back.allowed);
    BOOST_TEST(back.remaining == 8);
    BOOST_TEST(used(requests) == 2);
    BOOST_TEST(used(tokens) == 100);
    BOOST_TEST(!settle(d, requests.on("a", 9), tokens.on("a", 9)).allowed);
  });
}

BOOST_AUTO_TEST_CASE(a_reservation_of_several_limiters_can_be_settled) {
  on_both([&](const weir::store& store) {
    const limiter requests(store, "requests", token_bucket{.capacity = 10, .refill = {10, 1s}},
                           together);
    const limiter tokens(store, "tokens", sliding_log{.limit = 1000, .window = 24h}, together);
    record(requests.on("a", 10), tokens.on("a"));
    const joint_decision d = answer(
        [&](auto caller) { acquire_all(requests.on("a", 10), tokens.on("a", 500), caller); });
    BOOST_TEST((d.delay > 0us));
    BOOST_TEST(settle(d, requests.on("a", 10), tokens.on("a", 20)).allowed);
    BOOST_TEST(used(tokens) == 21);
    BOOST_TEST(!refund(d, requests.on("a"), tokens.on("a")).allowed);
  });
}

// The turn goes back by itself: settled as well, it would go back twice.
BOOST_AUTO_TEST_CASE(a_cancelled_reservation_of_several_limiters_leaves_nothing_to_settle) {
  on_both([&](const weir::store& store) {
    const limiter requests(store, "requests", sliding_log{.limit = 10, .window = 24h}, together);
    const limiter tokens(store, "tokens", token_bucket{1000, per_day(1000)}, together);
    record(requests.on("b", 1), tokens.on("a", 700));
    asio::cancellation_signal stop;
    crowd c;
    acquire_all(requests.on("a", 3), tokens.on("a", 500), joint_acquire_options{.max_wait = 24h},
                asio::bind_cancellation_slot(stop.slot(), c.caller()));
    // Until its turn has come, nothing else passes.
    const auto until = [&](bool is_reserved) {
      const auto holds = [&] {
        return answer([&](auto caller) { requests.fetch("a", caller); }).allowed != is_reserved;
      };
      for (int i = 0; i < 100'000 && !holds(); ++i) continue;
      BOOST_REQUIRE(holds());
    };
    until(true);
    stop.emit(asio::cancellation_type::terminal);
    run_until_complete(io, c);
    BOOST_TEST((c[0].ec == asio::error::operation_aborted));
    until(false);
    BOOST_TEST(record(requests.on("a", 3), tokens.on("a", 100)).allowed);
    const decision late = refund(c[0].d, requests.on("a"), tokens.on("a"));
    BOOST_TEST(!late.allowed);
    BOOST_TEST(used(requests) == 3);
    BOOST_TEST(used(tokens) == 800);
  });
}

BOOST_AUTO_TEST_CASE(limiters_with_tiers_and_cool_downs_are_settled_together) {
  on_both([&](const weir::store& store) {
    const limiter requests(
        store, "requests",
        tiers(gcra{.rate = per_day(1), .burst = 20}, fixed_window{.limit = 10, .window = 24h}),
        {.group = "model", .cool_downs = true});
    const limiter tokens(store, "tokens", token_bucket{1000, per_day(1)},
                         {.group = "model", .cool_downs = true});
    const joint_decision d = record(requests.on("a", 4), tokens.on("a", 400));
    BOOST_TEST(settle(d, requests.on("a", 1), tokens.on("a", 990)).remaining == 9);
    BOOST_TEST(used(requests) == 1);
    BOOST_TEST(used(tokens) == 990);
    BOOST_TEST(record(requests.on("a", 9), tokens.on("a", 10)).allowed);
  });
}

// Nothing of it could be given back, and no document said so.
BOOST_AUTO_TEST_CASE(what_an_enter_has_counted_can_be_settled) {
  on_both([&](const weir::store& store) {
    const concurrency_limiter gate(store, "gate", {.limit = 100, .group = "model"});
    with_each_in(store, [&](const limiter& requests, const limiter& tokens) {
      const std::array claims{requests.on("a"), tokens.on("a", 100)};
      const lease first = enter_with(io, gate, "a", claims);
      const lease both = enter_with(io, gate, "a", claims);
      const lease one = enter_with(io, gate, "a", std::array{tokens.on("a", 400)});
      BOOST_TEST_REQUIRE((first && both && one));
      BOOST_TEST(used(tokens) == 600);
      BOOST_TEST(settle(both.decision(), requests.on("a", 3), tokens.on("a", 50)).allowed);
      BOOST_TEST(!refund(both.decision(), requests.on("a"), tokens.on("a")).allowed);
      BOOST_TEST(used(requests) == 4);
      BOOST_TEST(used(tokens) == 550);
      const decision alone = answer(
          [&](auto caller) { tokens.settle("a", one.decision(), 30, caller); });
      BOOST_TEST(alone.allowed);
      BOOST_TEST(used(tokens) == 180);
      BOOST_TEST((both.is_held() && one.is_held()));
      BOOST_TEST((ask_to_settle(one.decision(), requests.on("a"), tokens.on("a")).ec ==
                  error::cannot_settle));
      const lease plain = enter(io, gate, "a");
      BOOST_TEST(plain.decision().receipt.id == 0u);
    });
  });
}

BOOST_AUTO_TEST_CASE(a_single_claim_is_the_limiters_own_settle) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", token_bucket{10, per_day(1)});
    decision d = answer([&](auto caller) { record_all(l.on("a", 4), caller); });
    BOOST_TEST(answer([&](auto caller) { l.settle("a", d, 1, caller); }).remaining == 9);
    BOOST_TEST(!answer([&](auto caller) { refund_all(d, l.on("a"), caller); }).allowed);
    d = answer([&](auto caller) { l.record("a", {.cost = 4}, caller); });
    BOOST_TEST(answer([&](auto caller) { settle_all(d, l.on("a", 2), caller); }).remaining == 7);
    BOOST_TEST(!answer([&](auto caller) { l.refund("a", d, caller); }).allowed);
  });
}

BOOST_AUTO_TEST_CASE(the_first_two_buckets_of_a_limiter_give_back_and_the_first_four_of_several) {
  // Equal buckets, but a smaller one, which the answers are about.
  const auto buckets = [](std::size_t count, std::size_t smaller) {
    std::vector<weir::policy> all(count, weir::token_bucket{20, weir::per_day(1)});
    if (smaller < count) all[smaller] = weir::token_bucket{10, weir::per_day(1)};
    return weir::tiers(std::span<const weir::policy>(all));
  };
  on_both([&](const weir::store& store) {
    const weir::concurrency_limiter gate(store, "gate", {.limit = 100, .group = "model"});
    for (std::size_t i = 0; i < 5; ++i) {
      const std::string name = std::to_string(i);
      const limiter l(store, "alone" + name, buckets(5, i));
      const decision d = answer([&](auto h) { l.record("a", {.cost = 4}, h); });
      BOOST_TEST(answer([&](auto h) { l.refund("a", d, h); }).used == (i < 2 ? 0 : 4));
      const joint_decision e = answer([&](auto h) { weir::record_all(l.on("b", 4), h); });
      BOOST_TEST(answer([&](auto h) { weir::refund_all(e, l.on("b"), h); }).used ==
                 (i < 2 ? 0 : 4));

      const limiter two(store, "two" + name, buckets(2, i), together);
      const limiter three(store, "three" + name, buckets(3, i - 2), together);
      const auto both = [&](std::string_view subject) {
        return std::array{two.on(subject, 4), three.on(subject, 4)};
      };
      const auto used_after = [&](const joint_decision& of, std::string_view subject) {
        return answer([&](auto h) { weir::refund_all(of, both(subject), h); }).used;
      };
      const std::int64_t left = i < 4 ? 0 : 4;
      BOOST_TEST(used_after(record(two.on("a", 4), three.on("a", 4)), "a") == left);
      BOOST_TEST(used_after(answer([&](auto h) { weir::acquire_all(both("b"), h); }), "b") == left);
      const weir::lease inside = weir::test::enter_with(io, gate, "c", both("c"));
      BOOST_TEST(used_after(inside.decision(), "c") == left);
    }
  });
}

// The caller refunds its reservation, or leaves while it waits for it.
BOOST_AUTO_TEST_CASE(a_reservation_gives_back_in_four_buckets) {
  on_both([&](const weir::store& store) {
    for (const bool leaves : {false, true}) {
      const std::string name = std::to_string(leaves);
      const weir::rate refill{10, leaves ? 1h : 100ms};
      std::vector<limiter> all{{store, "0" + name, weir::token_bucket{10, refill}, together}};
      for (const char* number : {"1", "2", "3"}) {
        all.emplace_back(store, number + name, weir::token_bucket{1000, weir::per_day(1)},
                         together);
      }
      const auto claims = [&](std::int64_t cost) {
        std::vector<claim> some{all[0].on("a", 10)};
        for (std::size_t i = 1; i < 4; ++i) some.push_back(all[i].on("a", cost));
        return some;
      };
      answer([&](auto h) { weir::record_all(claims(1), h); });
      asio::cancellation_signal stop;
      crowd c;
      weir::acquire_all(claims(500), {.max_wait = 24h},
                        asio::bind_cancellation_slot(stop.slot(), c.caller()));
      const auto until_used = [&](std::int64_t wanted) {
        for (int i = 0; i < 100'000 && used(all[3]) != wanted; ++i) continue;
        for (std::size_t i = 1; i < 4; ++i) BOOST_TEST(used(all[i]) == wanted);
      };
      until_used(501);
      if (leaves) stop.emit(asio::cancellation_type::terminal);
      weir::test::run_until_complete(io, c);
      BOOST_TEST(c.allowed() == (leaves ? 0u : 1u));
      if (!leaves) answer([&](auto h) { weir::refund_all(c[0].d, claims(1), h); });
      until_used(1);
    }
  });
}

BOOST_AUTO_TEST_CASE(several_limiters_can_be_settled_in_a_coroutine) {
  on_both([&](const weir::store& store) {
    const limiter requests(store, "requests", sliding_window{10, 24h}, together);
    const limiter tokens(store, "tokens", token_bucket{1000, per_day(1)}, together);
    run(io, [&]() -> asio::awaitable<void> {
      const joint_options patiently{.timeout = 50s};
      joint_decision d = co_await record_all(requests.on("a"), tokens.on("a", 500));
      const decision now = co_await settle_all(d, requests.on("a"), tokens.on("a", 300));
      BOOST_TEST(now.allowed);
      d = co_await record_all(requests.on("a"), tokens.on("a", 500));
      const auto [ec, back] = co_await refund_all(d, requests.on("a"), tokens.on("a"), patiently,
                                                  asio::as_tuple(asio::deferred));
      BOOST_TEST((!ec && back.allowed));
      d = co_await record_all(requests.on("a"), tokens.on("a", 500));
      const std::array claims{requests.on("a"), tokens.on("a", 600)};
      BOOST_TEST((co_await settle_all(d, claims, patiently)).allowed);
      BOOST_TEST(!(co_await refund_all(d, claims)).allowed);
    });
    BOOST_TEST(used(requests) == 2);
    BOOST_TEST(used(tokens) == 900);
    const std::span<const claim> none;
    BOOST_CHECK_THROW(static_cast<void>(settle_all(decision{}, none)), std::invalid_argument);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settle_all_test
