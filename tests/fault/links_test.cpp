// The link between a service and its server: cut at any byte, dead without a word, stuck in one
// direction.
#include "fault/proxied.hpp"

namespace links_test {

using namespace weir;
using namespace weir::test;

const policy plenty = fixed_window{.limit = max_units, .window = 24h};

struct fixture : proxied {
  limiter connected() {
    const limiter l(open(), "r", plenty);
    connect(l);
    return l;
  }
};

BOOST_FIXTURE_TEST_SUITE(links_suite, fixture)

// Wherever a request or its reply is cut: no call is repeated, none is lost without a word, and
// what was told is what the server has counted.
BOOST_AUTO_TEST_CASE(a_connection_cut_at_any_byte) {
  const auto l = connected();
  const limiter straight(make_redis_store(io.get_executor(), patient_options(server)), "r", plenty);
  std::int64_t told = 0, counted = 0, unknown_and_counted = 0, unknown_and_not = 0;
  for (const way w : {way::requests, way::replies}) {
    for (const auto what : {fault::kind::cut, fault::kind::reset}) {
      for (std::size_t byte = 0;; byte += w == way::requests ? 3 : 1) {
        BOOST_TEST_CONTEXT(to_string(what) << " after " << byte << " bytes of the "
                                           << (w == way::requests ? "request" : "reply")) {
          // Here, so that the next connection is there before the next cut.
          record_until_it_succeeds(l, "between");
          const std::size_t before = proxy.counts().all_faults();
          proxy.strike({.what = what, .way = w, .after = byte});
          const outcome o = record(l, "a");
          const bool was_cut = proxy.counts().all_faults() > before;
          if (!was_cut) proxy.lift();
          const std::int64_t now_counted = fetch(straight, "a").d.used;
          BOOST_TEST(now_counted - counted <= 1);
          if (!o.ec) {
            BOOST_TEST(o.d.used == now_counted);
            ++told;
          } else {
            WEIR_TEST_ERROR(o.ec, error::outcome_unknown);
            BOOST_CHECK(o.ec == condition::may_have_counted);
            ++(now_counted > counted ? unknown_and_counted : unknown_and_not);
          }
          counted = now_counted;
          if (!was_cut) break;  // past the last byte
        }
      }
    }
  }
  BOOST_TEST(counted == told + unknown_and_counted);
  BOOST_TEST(unknown_and_counted > 50);
  BOOST_TEST(unknown_and_not > 50);
}

BOOST_AUTO_TEST_CASE(a_dead_link_is_noticed_while_calls_are_pending) {
  options.silence_timeout = 250ms;
  const auto l = connected();
  proxy.strike({.what = fault::kind::half_open});
  crowd sent;
  for (int i = 0; i < 20; ++i) l.record("a", sent.caller());
  run_until_complete(io, sent);
  BOOST_TEST(sent.failed(error::outcome_unknown) == 20u);
  BOOST_TEST(record(l, "a").d.used == 1);  // none had arrived
  BOOST_TEST(proxy.counts().accepted == 2u);
}

BOOST_AUTO_TEST_CASE(a_dead_link_is_noticed_while_nothing_goes_on) {
  options.silence_timeout = 250ms;
  options.ping_interval = 60ms;
  const auto l = connected();
  proxy.strike({.what = fault::kind::half_open});
  run_until(io, [&] { return proxy.counts().accepted == 2; });
  BOOST_TEST(record(l, "a").d.used == 1);
}

BOOST_AUTO_TEST_CASE(a_link_that_dies_in_the_handshake_is_tried_again) {
  options.connect_timeout = 50ms;
  for (const auto what : {fault::kind::half_open, fault::kind::truncate}) {
    const std::size_t before = proxy.counts().accepted;
    proxy.plan([&](std::size_t number) {
      if (number - before >= 3) return std::vector<fault>{};
      return std::vector<fault>{{.what = what, .after = 10 * (number - before)}};
    });
    const limiter l(open(), to_string(what), plenty);
    BOOST_TEST(record(l, "a").d.used == 1);
    // More if a handshake without a fault took longer than the time-out.
    BOOST_TEST(proxy.counts().accepted >= before + 4);
  }
}

// The reply begins and never ends.
BOOST_AUTO_TEST_CASE(half_a_reply_is_no_sign_of_life_for_ever) {
  options.silence_timeout = 250ms;
  const auto l = connected();
  proxy.strike({.what = fault::kind::truncate, .after = 5});
  WEIR_TEST_ERROR(record(l, "a").ec, error::outcome_unknown);
  BOOST_TEST(record(l, "a").d.used == 2);
}

// Slow is not dead: a reply that trickles in for longer than the silence that is borne.
BOOST_AUTO_TEST_CASE(a_slow_link_is_not_given_up) {
  options.silence_timeout = 400ms;
  options.max_keys_per_call = 1;
  const auto l = connected();
  proxy.strike({.what = fault::kind::throttle, .rate = 20'000});
  crowd c;
  for (int i = 0; i < 200; ++i) l.record("s" + std::to_string(i), c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 200u);
  BOOST_TEST(proxy.counts().accepted == 1u);
}

// The server takes nothing more, and yet what it answers is heard: a write that is stuck holds up
// no reply.
BOOST_AUTO_TEST_CASE(replies_are_read_while_a_write_is_stuck) {
  // As many and as long replies as may be under way: one read does not take them all.
  options.max_keys_per_call = 1;
  constexpr std::int64_t many = 1'000'000'000'000'000;
  const limiter l(open(), "r", sliding_log{.limit = 4 * many, .window = 24h});
  connect(l);
  const auto record_all = [&](crowd& c) {
    for (int i = 0; i < 190; ++i) l.record("s" + std::to_string(i), {.cost = many}, c.caller());
  };
  crowd before, first;
  record_all(before);
  run_until_complete(io, before);
  proxy.strike({.what = fault::kind::stall, .way = way::replies});
  record_all(first);
  redis_client client(server);
  poll_until([&] { return client.must("LLEN", "weir:{r:s189}:l").integer == 3; });
  run_ready();
  proxy.strike({.what = fault::kind::stall, .way = way::requests});
  crowd stuck;
  for (int i = 0; i < 300; ++i)
    l.record(std::string(65'000, 's') + std::to_string(i), stuck.caller());
  run_ready();
  proxy.lift(way::replies);
  run_until_complete(io, first);
  BOOST_TEST(first.allowed() == 190u);
  BOOST_TEST(stuck.answered() == 0u);
  proxy.lift(way::requests);
  run_until_complete(io, stuck);
  BOOST_TEST(stuck.allowed() == 300u);
  BOOST_TEST(proxy.counts().accepted == 1u);
}

// What comes in between is not taken for an answer, wherever it comes.
BOOST_AUTO_TEST_CASE(bytes_in_between_reach_no_caller) {
  const auto l = connected();
  for (const auto what : {fault::kind::garbage, fault::kind::stray}) {
    for (std::size_t byte = 0;; ++byte) {
      BOOST_TEST_CONTEXT(to_string(what) << " after " << byte << " bytes") {
        record_until_it_succeeds(l, "between");
        const std::size_t before = proxy.counts().all_faults();
        proxy.strike({.what = what, .after = byte});
        // In calls of their own, each with a number that tells it: the third digit is the
        // subject's.
        crowd c;
        const std::string round = to_string(what) + std::to_string(byte);
        for (int i = 1; i <= 5; ++i)
          l.record(round + std::to_string(i), {.cost = 100 * i + i}, c.caller());
        run_until_complete(io, c);
        for (std::size_t i = 0; i < 5; ++i) {
          if (c[i].ec) {
            BOOST_CHECK(c[i].ec == condition::may_have_counted);
          } else {
            BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(101 * (i + 1)));
          }
        }
        const bool struck = proxy.counts().all_faults() > before;
        if (!struck) {
          BOOST_TEST(c.allowed() == 5u);
          proxy.lift();
          break;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace links_test
