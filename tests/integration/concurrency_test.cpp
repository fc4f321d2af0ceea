// Gates in a real server: which calls get in, from many processes, and what becomes of answers that
// no caller hears.
#include "integration/gate_fixture.hpp"
#include "support/fault_proxy.hpp"

namespace concurrency_test {

using namespace weir;
using namespace weir::test;
using asio::cancellation_type;

BOOST_FIXTURE_TEST_SUITE(concurrency_suite, gate_fixture)

BOOST_AUTO_TEST_CASE(a_place_is_taken_seen_by_all_and_given_back) {
  const auto here = gate(2, 60s), there = gate(2, 60s);
  lease one = enter(here), two = enter(there);
  BOOST_TEST((one.is_held() && two.is_held()));
  const lease none = enter(here);
  BOOST_TEST(!none);
  BOOST_TEST(none.decision().used == 2);
  BOOST_TEST((none.decision().retry_after > 50s && none.decision().retry_after <= 60s));
  BOOST_TEST(client.must("PTTL", key).integer > 50'000);
  BOOST_TEST(client.must("PTTL", key).integer <= 62'001);
  BOOST_TEST(fetch(io, there, "a").remaining == 0);
  one.release();
  poll_until([&] { return inside() == 1; });
  two.release();
  poll_until([&] { return client.must("EXISTS", key).integer == 0; });
}

// On one connection, what is given back is free for the next call.
BOOST_AUTO_TEST_CASE(a_place_given_back_is_free_for_the_next_call) {
  const auto g = gate(1);
  run(io, [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 200; ++i) {
      const lease l = co_await g.enter("a");
      BOOST_TEST_REQUIRE(l.allowed());
    }
  });
  // Also when all of that leaves in one write: each has a call of its own, the leave before all
  // enters that wait, and those in order.
  std::vector<std::unique_ptr<entrance>> all;
  lease l = enter(g);
  server.pause();
  all.push_back(std::make_unique<entrance>(g));
  l.release();
  for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<entrance>(g));
  run_ready();
  server.resume();
  run_until(io, [&] { return all.back()->done; });
  BOOST_TEST((all[0]->got && !all[1]->got && !all[2]->got && !all[3]->got));
}

BOOST_AUTO_TEST_CASE(never_more_than_so_many_under_load) {
  constexpr int limit = 4, processes = 3, callers = 40, turns = 25;
  int in = 0, most = 0, entered = 0, running = 0;
  std::vector<concurrency_limiter> gates;
  for (int i = 0; i < processes; ++i) gates.push_back(gate(limit));
  const auto live = [&](concurrency_limiter g) -> asio::awaitable<void> {
    for (int done = 0; done < turns;) {
      lease l = co_await g.enter("a");
      if (!l) continue;
      ++done;
      ++entered;
      most = std::max(most, ++in);
      const decision d = co_await g.fetch("a");
      BOOST_TEST((d.used >= 1 && d.used <= limit));
      --in;
    }
  };
  for (int i = 0; i < callers; ++i) {
    ++running;
    asio::co_spawn(io, live(gates[static_cast<std::size_t>(i % processes)]),
                   [&](std::exception_ptr e) {
                     BOOST_TEST(!e);
                     --running;
                   });
  }
  run_until(io, [&] { return running == 0; });
  BOOST_TEST(most == limit);
  BOOST_TEST(entered == callers * turns);
  poll_until([&] { return inside() == 0; });
}

BOOST_AUTO_TEST_CASE(a_caller_cancelled_while_its_answer_is_on_the_way_gives_the_lease_back) {
  const auto g = gate(1);
  enter(g).release();
  poll_until([&] { return inside() == 0; });
  const int entered = runs_of("zadd");
  server.pause();
  entrance e(g);
  run_ready();
  e.signal.emit(cancellation_type::terminal);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, asio::error::operation_aborted);
  BOOST_TEST(!e.got);
  server.resume();
  BOOST_TEST(enter(g).allowed());
  BOOST_TEST(runs_of("zadd") == entered + 2);  // both had been let in
}

BOOST_AUTO_TEST_CASE(a_call_that_was_never_sent_has_nothing_to_give_back) {
  const auto g = gate(1);
  enter(g).release();
  poll_until([&] { return inside() == 0; });
  server.kill();
  entrance e(g);  // before the store knows
  e.signal.emit(cancellation_type::total);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, asio::error::operation_aborted);
  server.restart();
  poll_until([&] {
    std::optional<weir::error_code> read;
    g.fetch("a", [&](weir::error_code ec, const decision&) { read = ec; });
    run_until(io, [&] { return read.has_value(); });
    return !read->failed();
  });
  const lease l = enter(g);
  BOOST_TEST(l.is_held());
  redis_client again(server);
  const std::string all = again.must("INFO", "commandstats").text;
  BOOST_TEST(all.find("cmdstat_zadd:calls=1,") != std::string::npos);
  BOOST_TEST(all.find("cmdstat_zrem:") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(whose_time_was_over_before_the_answer_came_gives_it_back) {
  const auto g = gate(1);
  enter(g).release();
  poll_until([&] { return inside() == 0; });
  const int entered = runs_of("zadd");
  server.pause();
  entrance e(g, {.timeout = 20ms});
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, error::no_reply);
  server.resume();
  BOOST_TEST(enter(g).allowed());
  BOOST_TEST(runs_of("zadd") == entered + 2);
}

// The enter has run, and the connection breaks before the answer is there: the next one takes the
// place back.
BOOST_AUTO_TEST_CASE(an_enter_whose_answer_was_lost_is_given_back_on_the_next_connection) {
  fault_proxy proxy(io, server);
  redis_options o = options();
  o.port = static_cast<std::uint16_t>(proxy.port());
  const concurrency_limiter g(make_redis_store(io.get_executor(), o), "gate",
                              {.limit = 1, .lease_duration = 1h});
  enter(g).release();
  // Behind the reply to the leave: the fault is for the next one.
  BOOST_TEST(fetch(io, g, "a").remaining == 1);
  proxy.strike({.what = fault::kind::reset, .way = weir::test::way::replies, .after = 1});
  const int entered = runs_of("zadd");
  entrance e(g);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, error::outcome_unknown);
  poll_until([&] { return inside() == 0; });
  BOOST_TEST(runs_of("zadd") == entered + 1);
  proxy.lift();
  BOOST_TEST(enter(g).allowed());
}

// The connection breaks while the leave is on its way, or its answer: the lease is given back on
// the next one, although the first leave may have run.
BOOST_AUTO_TEST_CASE(a_lease_whose_leave_was_cut_off_is_given_back_on_the_next_connection) {
  using weir::test::way;
  fault_proxy proxy(io, server);
  redis_options o = options();
  o.port = static_cast<std::uint16_t>(proxy.port());
  const concurrency_limiter g(make_redis_store(io.get_executor(), o), "gate",
                              {.limit = 2, .lease_duration = 1h});
  const lease stays = enter(g);
  for (const way w : {way::requests, way::replies}) {
    lease l = enter(g);
    BOOST_TEST(inside() == 2);
    const std::size_t resets = proxy.counts().of(fault::kind::reset);
    proxy.strike({.what = fault::kind::reset, .way = w, .after = 1});
    l.release();
    poll_until([&] { return proxy.counts().of(fault::kind::reset) > resets; });
    poll_until([&] { return inside() == 1; });
    proxy.lift();
    BOOST_TEST(stays.is_held());
  }
}

// The braces could have been claims: the call did not compile.
BOOST_AUTO_TEST_CASE(options_and_claims_are_told_apart) {
  const store s = open();
  const concurrency_limiter g(s, "gate", {.limit = 9, .lease_duration = 1h, .group = "partner"});
  const limiter l(s, "r", fixed_window{.limit = 9, .window = 24h}, {.group = "partner"});
  run(io, [&]() -> asio::awaitable<void> {
    const auto token = asio::as_tuple(asio::deferred);
    const std::vector claims{l.on("a")};
    std::vector<lease> held;
    held.push_back(co_await g.enter("a", {}));
    held.push_back(co_await g.enter("a", {.timeout = 9s}));
    held.push_back(co_await g.enter("a", l.on("a"), {.timeout = 9s}));
    held.push_back(co_await g.enter("a", claims, {}));
    held.push_back(std::get<1>(co_await g.enter("a", {}, token)));
    held.push_back(std::get<1>(co_await g.enter("a", l.on("a"), token)));
    held.push_back(std::get<1>(co_await g.enter("a", claims, {.timeout = 9s}, token)));
    for (const lease& one : held) BOOST_TEST(one.is_held());
    BOOST_TEST((co_await l.fetch("a")).used == 4);
  });
}

BOOST_AUTO_TEST_CASE(together_with_limiters_it_is_one_step) {
  const store s = open();
  const concurrency_limiter g(s, "gate", {.limit = 2, .lease_duration = 1h, .group = "partner"});
  const limiter total(s, "total", fixed_window{.limit = 4, .window = 24h}, {.group = "partner"});
  const limiter each(s, "each",
                     tiers(token_bucket{.capacity = 3, .refill = per_day(1)},
                           sliding_log{.limit = 3, .window = 24h}),
                     {.group = "partner", .cool_downs = true});
  run(io, [&]() -> asio::awaitable<void> {
    const std::array both{total.on("all"), each.on("a")};
    lease one = co_await g.enter("a", both), two = co_await g.enter("a", both, {});
    BOOST_TEST((one.is_held() && two.is_held()));
    const lease full = co_await g.enter("a", both);
    BOOST_TEST(!full);
    BOOST_TEST(full.decision().tier == 0);
    BOOST_TEST(full.decision().used == 2);
    BOOST_TEST((co_await total.fetch("all")).used == 2);
    one.release();
    const lease three = co_await g.enter("a", both);
    BOOST_TEST(three.is_held());
    two.release();
    const lease drained = co_await g.enter("a", both);
    BOOST_TEST(!drained);
    BOOST_TEST(drained.decision().tier == 2);
    BOOST_TEST((co_await g.fetch("a")).used == 1);
    BOOST_TEST((co_await total.fetch("all")).used == 3);
    co_await each.cool_down("b", 1h);
    const std::array held{each.on("b")};
    const lease none = co_await g.enter("a", held);
    BOOST_TEST((!none && none.decision().cooling_down));
    BOOST_TEST((co_await g.fetch("a")).used == 1);
  });
  poll_until([&] { return client.must("EXISTS", "weir:{partner}:gate:a:c").integer == 0; });
}

BOOST_AUTO_TEST_CASE(a_foreign_key_is_reported) {
  const auto g = gate(1);
  client.must("SET", key, "x");
  error_code ec;
  BOOST_TEST(!weir::test::enter(io, g, "a", ec));
  WEIR_TEST_ERROR(ec, error::wrong_type);
  BOOST_TEST(client.must("GET", key).text == "x");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace concurrency_test
