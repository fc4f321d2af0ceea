// settle_all() and refund_all(), in memory and in a real server.
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

namespace settle_all_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::claim;
using weir::decision;
using weir::error;
using weir::limiter;
using weir::limiter_options;
using weir::test::crowd;
using weir::test::outcome;

const limiter_options together{.group = "model"};

/// None of them lets anything through again within a test.
std::vector<weir::policy> a_day(std::int64_t limit) {
  return {
      weir::fixed_window{.limit = limit, .window = 24h},
      weir::sliding_window{.limit = limit, .window = 24h},
      weir::sliding_log{.limit = limit, .window = 24h},
      weir::token_bucket{.capacity = limit, .refill = weir::per_day(1)},
      weir::gcra{.rate = weir::per_day(1), .burst = limit},
  };
}

struct fixture : weir::test::server_fixture {
  /// Each policy beside each: 10 requests, and 1,000 tokens.
  template <class F>
  void with_each(F&& f) {
    on_both([&](const weir::store& store) {
      int n = 0;
      for (const weir::policy& p : a_day(10)) {
        for (const weir::policy& q : a_day(1000)) {
          BOOST_TEST_CONTEXT("policies " << p.index() << " and " << q.index()) {
            const std::string number = std::to_string(n++);
            f(limiter(store, "requests" + number, p, together),
              limiter(store, "tokens" + number, q, together));
          }
        }
      }
    });
  }
  decision record(const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::record_all(a, b, caller); });
  }
  outcome ask_to_settle(const decision& d, const claim& a, const claim& b) {
    return outcome_of([&](auto caller) { weir::settle_all(d, a, b, caller); });
  }
  decision settle(const decision& d, const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::settle_all(d, a, b, caller); });
  }
  decision refund(const decision& d, const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::refund_all(d, a, b, caller); });
  }
  std::int64_t used(const limiter& l, std::string_view subject = "a") {
    return answer([&](auto caller) { l.fetch(subject, caller); }).used;
  }
  std::vector<std::string> markers() {
    std::vector<std::string> all;
    for (auto& key : client.must("KEYS", "weir:*:s????????????????").children) {
      all.push_back(key.text);
    }
    return all;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(settle_all_suite, fixture)

BOOST_AUTO_TEST_CASE(each_limiter_settles_what_the_call_really_cost_there) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    record(requests.on("a", 2), tokens.on("a", 100));
    const decision d = record(requests.on("a", 3), tokens.on("a", 400));
    BOOST_TEST(used(requests) == 5);
    BOOST_TEST(used(tokens) == 500);
    // One gives back, while the other is charged; and then the other way round.
    decision now = settle(d, requests.on("a", 1), tokens.on("a", 450));
    BOOST_TEST(now.allowed);
    BOOST_TEST(now.limit == 10);  // it has the least left
    BOOST_TEST(now.remaining == 7);
    BOOST_TEST(used(requests) == 3);
    BOOST_TEST(used(tokens) == 550);
    const decision e = record(requests.on("a", 1), tokens.on("a", 400));
    now = settle(e, requests.on("a", 2), tokens.on("a", 0));
    BOOST_TEST(now.allowed);
    BOOST_TEST(now.remaining == 5);
    BOOST_TEST(used(requests) == 5);
    BOOST_TEST(used(tokens) == 550);
    // As many as were taken: nothing changes there.
    const decision f = record(requests.on("a", 1), tokens.on("a", 400));
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
    const decision d = record(requests.on("a", 2), tokens.on("a", 400));
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
    const decision d = record(requests.on("a", 5), tokens.on("a", 500));
    crowd c;
    for (int i = 0; i < 50; ++i) {
      weir::settle_all(d, requests.on("a", 4), tokens.on("a", 600), c.caller());
      weir::refund_all(d, requests.on("a"), tokens.on("a"), c.caller());
    }
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 1u);
    BOOST_TEST(c.refused() == 99u);
    BOOST_TEST(used(requests) == 4);
    BOOST_TEST(used(tokens) == 600);
  });
}

BOOST_AUTO_TEST_CASE(one_marker_in_the_slot_of_the_group_remembers_it) {
  const weir::store store = open(false);
  const limiter requests(store, "requests", weir::fixed_window{.limit = 10, .window = 1h},
                         together);
  const limiter tokens(store, "tokens", weir::token_bucket{1000, weir::per_hour(1000)}, together);
  const decision d = record(requests.on("a"), tokens.on("a", 500));
  BOOST_TEST(settle(d, requests.on("a"), tokens.on("a", 100)).allowed);
  BOOST_TEST_REQUIRE(markers().size() == 1u);
  BOOST_TEST(markers()[0].starts_with("weir:{model}:requests:a:s"));
  // As long as anything could be given back.
  const auto ttl = client.must("PTTL", markers()[0]).integer;
  BOOST_TEST(ttl > 3'000'000);
  BOOST_TEST(ttl <= 3'600'000);
  client.must("DEL", markers()[0]);
  // This process knows it even so.
  BOOST_TEST(!refund(d, requests.on("a"), tokens.on("a")).allowed);
  BOOST_TEST(used(tokens) == 100);
}

BOOST_AUTO_TEST_CASE(all_is_given_back_whatever_the_claims_cost) {
  with_each([&](const limiter& requests, const limiter& tokens) {
    record(requests.on("a", 2), tokens.on("a", 100));
    const decision d = record(requests.on("a", 3), tokens.on("a", 400));
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
    const limiter requests(store, "requests",
                           weir::token_bucket{.capacity = 10, .refill = {1000, 1s}}, together);
    const limiter tokens(store, "tokens", weir::sliding_log{.limit = 1000, .window = 24h},
                         together);
    record(requests.on("a", 10), tokens.on("a"));
    const decision d = answer(
        [&](auto caller) { weir::acquire_all(requests.on("a", 10), tokens.on("a", 500), caller); });
    BOOST_TEST((d.delay > 0us));
    BOOST_TEST(settle(d, requests.on("a", 10), tokens.on("a", 20)).allowed);
    BOOST_TEST(used(tokens) == 21);
    BOOST_TEST(!refund(d, requests.on("a"), tokens.on("a")).allowed);
  });
}

// The turn goes back by itself: settled as well, it would go back twice.
BOOST_AUTO_TEST_CASE(a_cancelled_reservation_of_several_limiters_leaves_nothing_to_settle) {
  on_both([&](const weir::store& store) {
    const limiter requests(store, "requests", weir::sliding_log{.limit = 10, .window = 24h},
                           together);
    const limiter tokens(store, "tokens", weir::token_bucket{1000, weir::per_day(1000)}, together);
    record(requests.on("b", 1), tokens.on("a", 700));
    asio::cancellation_signal stop;
    crowd c;
    weir::acquire_all(requests.on("a", 3), tokens.on("a", 500),
                      weir::joint_options{.max_wait = 24h},
                      asio::bind_cancellation_slot(stop.slot(), c.caller()));
    // Until its turn has come, nothing else passes.
    const auto until = [&](bool is_booked) {
      const auto holds = [&] {
        return answer([&](auto caller) { requests.fetch("a", caller); }).allowed != is_booked;
      };
      for (int i = 0; i < 100'000 && !holds(); ++i) continue;
      BOOST_REQUIRE(holds());
    };
    until(true);
    stop.emit(asio::cancellation_type::terminal);
    weir::test::run_until_complete(io, c);
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
    const limiter requests(store, "requests",
                           weir::tiers(weir::gcra{.rate = weir::per_day(1), .burst = 20},
                                       weir::fixed_window{.limit = 10, .window = 24h}),
                           {.group = "model", .cool_downs = true});
    const limiter tokens(store, "tokens", weir::token_bucket{1000, weir::per_day(1)},
                         {.group = "model", .cool_downs = true});
    const decision d = record(requests.on("a", 4), tokens.on("a", 400));
    BOOST_TEST(settle(d, requests.on("a", 1), tokens.on("a", 990)).remaining == 9);
    BOOST_TEST(used(requests) == 1);
    BOOST_TEST(used(tokens) == 990);
    BOOST_TEST(record(requests.on("a", 9), tokens.on("a", 10)).allowed);
  });
}

BOOST_AUTO_TEST_CASE(a_single_claim_is_the_limiters_own_settle) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", weir::token_bucket{10, weir::per_day(1)});
    decision d = answer([&](auto caller) { weir::record_all(l.on("a", 4), caller); });
    BOOST_TEST(answer([&](auto caller) { l.settle("a", d, 1, caller); }).remaining == 9);
    BOOST_TEST(!answer([&](auto caller) { weir::refund_all(d, l.on("a"), caller); }).allowed);
    d = answer([&](auto caller) { l.record("a", {.cost = 4}, caller); });
    BOOST_TEST(answer([&](auto caller) { weir::settle_all(d, l.on("a", 2), caller); }).remaining ==
               7);
    BOOST_TEST(!answer([&](auto caller) { l.refund("a", d, caller); }).allowed);
  });
}

BOOST_AUTO_TEST_CASE(it_is_settled_with_the_claims_that_were_asked) {
  on_both([&](const weir::store& store) {
    const weir::policy p = weir::fixed_window{.limit = 10, .window = 24h};
    const limiter one(store, "one", p, together), two(store, "two", p, together);
    const limiter three(store, "three", p, together),
        elsewhere(store, "two", p, {.group = "other"});
    const limiter of_another_policy(store, "two", weir::fixed_window{.limit = 11, .window = 24h},
                                    together);
    const limiter counts_all(store, "four",
                             weir::fixed_window{.limit = 10, .window = 24h, .count_refused = true},
                             together);
    const decision d = record(one.on("a", 2), two.on("b", 3));
    const auto error_of = [&](const claim& a, const claim& b) { return ask_to_settle(d, a, b).ec; };
    WEIR_TEST_ERROR(error_of(two.on("b"), one.on("a")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("b"), two.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("a")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), three.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), elsewhere.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), of_another_policy.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), counts_all.on("b")), error::cannot_settle);
    const auto of_some = [&](std::span<const claim> claims) {
      return outcome_of([&](auto caller) { weir::refund_all(d, claims, {}, caller); }).ec;
    };
    WEIR_TEST_ERROR(of_some(std::array{one.on("a")}), error::cannot_settle);
    WEIR_TEST_ERROR(of_some(std::array{one.on("a"), two.on("b"), three.on("b")}),
                    error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a", -1), two.on("b")), error::invalid_cost);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("b", weir::max_units + 1)), error::invalid_cost);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("")), error::invalid_subject);
    BOOST_TEST(used(one) == 2);
    BOOST_TEST(used(two, "b") == 3);
    const decision of_one = answer([&](auto caller) { one.record("a", caller); });
    WEIR_TEST_ERROR(ask_to_settle(of_one, one.on("a"), two.on("b")).ec, error::cannot_settle);
    const limiter like_one(store, "one", p, together);
    BOOST_TEST(refund(d, like_one.on("a"), two.on("b")).allowed);
    BOOST_TEST_CHECK(used(one) == 1);
  });
}

BOOST_AUTO_TEST_CASE(what_took_nothing_tells_how_things_stand) {
  on_both([&](const weir::store& store) {
    const weir::policy p = weir::sliding_log{.limit = 10, .window = 24h};
    const limiter one(store, "one", p, together), two(store, "two", p, together);
    const limiter elsewhere(store, "two", p, {.group = "other"});
    record(one.on("a", 2), two.on("a", 7));
    const decision refused = record(one.on("a", 1), two.on("a", 4));
    BOOST_TEST(!refused.allowed);
    for (const decision& d : {refused, decision{}}) {
      const decision now = settle(d, one.on("a", 0), two.on("a", 9));
      BOOST_TEST(!now.allowed);
      BOOST_TEST(now.limit == 10);
      BOOST_TEST(now.used == 7);
      BOOST_TEST(now.remaining == 3);
      BOOST_TEST((now.reset_after > 0us));
      BOOST_TEST(now.receipt.id == 0u);
    }
    BOOST_TEST(used(two) == 7);
    WEIR_TEST_ERROR(ask_to_settle(refused, one.on("a"), elsewhere.on("a")).ec,
                    error::cannot_combine);
    WEIR_TEST_ERROR(ask_to_settle(refused, one.on("a"), one.on("a")).ec, error::cannot_combine);
  });
}

BOOST_AUTO_TEST_CASE(four_limiters_can_be_settled_and_five_cannot) {
  on_both([&](const weir::store& store) {
    std::vector<limiter> all;
    for (int i = 0; i < 5; ++i) {
      all.emplace_back(store, "r" + std::to_string(i), a_day(100)[static_cast<std::size_t>(i)],
                       together);
    }
    const auto on = [&](std::size_t count, std::int64_t cost) {
      std::vector<claim> claims;
      for (std::size_t i = 0; i < count; ++i) {
        claims.push_back(all[i].on("a", cost * static_cast<std::int64_t>(i + 1)));
      }
      return claims;
    };
    decision d = answer([&](auto h) { weir::record_all(on(4, 10), {}, h); });
    BOOST_TEST(answer([&](auto h) { weir::settle_all(d, on(4, 3), {}, h); }).allowed);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(used(all[i]) == 3 * static_cast<int>(i + 1));
    d = answer([&](auto h) { weir::record_all(on(5, 10), {}, h); });
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.receipt.id == 0u);
    WEIR_TEST_ERROR(outcome_of([&](auto h) { weir::refund_all(d, on(5, 1), {}, h); }).ec,
                    error::cannot_settle);
    BOOST_TEST(used(all[4]) == 50);
  });
}

// One key holds a foreign value: the script changes no other key, and writes no marker.
BOOST_AUTO_TEST_CASE(a_foreign_entry_in_one_key_leaves_all_as_they_were) {
  const weir::store store = open(false);
  int n = 0;
  for (const bool first : {false, true}) {
    for (const weir::policy& p : a_day(10)) {
      for (const char* command : {"SET", "RPUSH"}) {
        BOOST_TEST_CONTEXT("policy " << p.index() << ", the first: " << first << ", " << command) {
          const std::string number = std::to_string(n++);
          const limiter ours(store, "ours" + number, p, together);
          const limiter theirs(store, "theirs" + number, p, together);
          const auto claims = [&](std::int64_t a, std::int64_t b) {
            return first ? std::array{theirs.on("a", b), ours.on("a", a)}
                         : std::array{ours.on("a", a), theirs.on("a", b)};
          };
          const decision d = answer([&](auto h) { weir::record_all(claims(6, 4), {}, h); });
          const auto key_of = [&](const char* resource) {
            const std::string pattern = "weir:{model}:" + (resource + number) + ":a:*";
            const auto keys = client.must("KEYS", pattern).children;
            BOOST_TEST_REQUIRE(keys.size() == 1u);
            return keys[0].text;
          };
          const std::string key = key_of("theirs"), untouched = key_of("ours");
          const std::string before = client.must("DUMP", untouched).text;
          client.must("RENAME", key, "aside");
          client.must(command, key, "something else");
          for (const auto& actual : {claims(2, 1), claims(9, 9), claims(2, 9), claims(6, 0)}) {
            WEIR_TEST_ERROR(outcome_of([&](auto h) { weir::settle_all(d, actual, {}, h); }).ec,
                            error::wrong_type);
          }
          BOOST_TEST((client.must("DUMP", untouched).text == before));
          BOOST_TEST(markers().empty());
          // So it can be tried again.
          client.must("RENAME", "aside", key);
          BOOST_TEST(answer([&](auto h) { weir::settle_all(d, claims(2, 9), {}, h); }).allowed);
          BOOST_TEST(used(ours) == 2);
          BOOST_TEST(used(theirs) == 9);
          for (const std::string& marker : markers()) client.must("DEL", marker);
        }
      }
    }
  }
}

// It was remembered as done, and what was given back to the first tier was not tried again.
BOOST_AUTO_TEST_CASE(a_foreign_entry_in_one_tier_leaves_the_others_as_they_were) {
  const limiter l(open(false), "r",
                  weir::tiers(weir::fixed_window{.limit = 10, .window = 24h},
                              weir::token_bucket{20, weir::per_day(1)}));
  const decision d = answer([&](auto h) { l.record("a", {.cost = 6}, h); });
  client.must("RENAME", "weir:{r:a}:m1", "aside");
  client.must("SET", "weir:{r:a}:m1", "something else");
  WEIR_TEST_ERROR(outcome_of([&](auto h) { l.refund("a", d, h); }).ec, error::wrong_type);
  client.must("RENAME", "aside", "weir:{r:a}:m1");
  BOOST_TEST(used(l) == 6);
  BOOST_TEST(answer([&](auto h) { l.refund("a", d, h); }).allowed);
  BOOST_TEST(used(l) == 0);
}

BOOST_AUTO_TEST_CASE(where_nothing_more_can_be_remembered_nothing_is_settled) {
  const weir::store store = weir::make_memory_store(io.get_executor(), {.max_settled = 1});
  const limiter one(store, "one", weir::token_bucket{10, weir::per_day(1)}, together);
  const limiter two(store, "two", weir::sliding_log{10, 24h}, together);
  const decision d = record(one.on("a", 2), two.on("a", 2));
  const decision e = record(one.on("a", 3), two.on("a", 3));
  BOOST_TEST(refund(d, one.on("a"), two.on("a")).allowed);
  WEIR_TEST_ERROR(ask_to_settle(e, one.on("a", 1), two.on("a", 5)).ec, error::settlements_full);
  BOOST_TEST(used(one) == 3);
  BOOST_TEST(used(two) == 3);
}

BOOST_AUTO_TEST_CASE(several_limiters_can_be_settled_in_a_coroutine) {
  on_both([&](const weir::store& store) {
    const limiter requests(store, "requests", weir::sliding_window{10, 24h}, together);
    const limiter tokens(store, "tokens", weir::token_bucket{1000, weir::per_day(1)}, together);
    weir::test::run(io, [&]() -> asio::awaitable<void> {
      const weir::joint_options patiently{.timeout = 50s};
      decision d = co_await weir::record_all(requests.on("a"), tokens.on("a", 500));
      const decision now = co_await weir::settle_all(d, requests.on("a"), tokens.on("a", 300));
      BOOST_TEST(now.allowed);
      d = co_await weir::record_all(requests.on("a"), tokens.on("a", 500));
      const auto [ec, back] = co_await weir::refund_all(d, requests.on("a"), tokens.on("a"),
                                                        patiently, asio::as_tuple(asio::deferred));
      BOOST_TEST((!ec && back.allowed));
      d = co_await weir::record_all(requests.on("a"), tokens.on("a", 500));
      const std::array claims{requests.on("a"), tokens.on("a", 600)};
      BOOST_TEST((co_await weir::settle_all(d, claims, patiently)).allowed);
      BOOST_TEST(!(co_await weir::refund_all(d, claims)).allowed);
    });
    BOOST_TEST(used(requests) == 2);
    BOOST_TEST(used(tokens) == 900);
    const std::span<const claim> none;
    BOOST_CHECK_THROW(static_cast<void>(weir::settle_all(decision{}, none)), std::invalid_argument);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settle_all_test
