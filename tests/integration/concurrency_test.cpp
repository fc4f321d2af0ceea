// Gates in a real server: many holders in many processes, and what becomes of a lease when its holder, the connection or
// the server ends.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/fault_proxy.hpp"
#include "support/leases.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::cancellation_type;
using weir::concurrency_limiter;
using weir::error;
using weir::error_code;
using weir::lease;
using weir::test::loss;
using weir::test::redis_client;
using weir::test::redis_server;
using weir::test::run_until;

const std::string key = "weir:{gate:a}:c";

struct fixture {
  redis_server server;
  redis_client client{server};
  asio::io_context io;

  weir::redis_options options() const { return weir::test::patient_options(server); }
  weir::store open() { return weir::make_redis_store(io.get_executor(), options()); }
  concurrency_limiter gate(std::int64_t limit, std::chrono::microseconds length = 1h) {
    return {open(), "gate", {.limit = limit, .lease = length}};
  }
  lease enter(const concurrency_limiter& g) { return weir::test::enter(io, g, "a"); }
  std::int64_t inside() { return client.must("ZCARD", key).integer; }
  /// When the last lease lapses, by the server's clock.
  double end() {
    const auto last = client.must("ZRANGE", key, -1, -1, "WITHSCORES").children;
    return last.empty() ? 0 : std::stod(last.at(1).text);
  }
  /// How often the server has run that command, in scripts and without.
  int runs_of(const std::string& command) {
    const std::string all = client.must("INFO", "commandstats").text;
    const auto at = all.find("cmdstat_" + command + ":calls=");
    return at == std::string::npos ? 0 : std::stoi(all.substr(all.find('=', at) + 1));
  }
  /// For what only the server knows, and nobody tells: asked again and again, while everything else goes on.
  template <class Predicate>
  void ask_until(Predicate&& holds) {
    const auto limit = std::chrono::steady_clock::now() + weir::test::watchdog;
    asio::steady_timer pause(io);
    while (!holds()) {
      BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < limit, "it never came about");
      bool over = false;
      pause.expires_after(1ms);
      pause.async_wait([&](error_code) { over = true; });
      run_until(io, [&] { return over; });
    }
  }
  /// Lets happen what can happen without waiting.
  void settle() {
    io.restart();
    while (io.poll() != 0) {
    }
  }
};

/// One that enters through a gate, and may be cancelled.
struct entrance {
  asio::cancellation_signal signal;
  error_code ec;
  lease got;
  bool done = false;

  entrance(const concurrency_limiter& g, weir::enter_options how = {}) {
    g.enter("a", how, asio::bind_cancellation_slot(signal.slot(), [this](error_code e, lease l) {
              ec = e;
              got = std::move(l);
              done = true;
            }));
  }
};

/// What a child process does: enters, tells its parent when by the server's clock, and holds on for ever.
[[noreturn]] void hold_for_ever(const weir::redis_options& options,
                                std::chrono::microseconds length, int told) {
  ::alarm(120);  // should the parent be gone
  asio::io_context io;
  const concurrency_limiter g(weir::make_redis_store(io.get_executor(), options), "gate",
                              {.limit = 2, .lease = length});
  lease held;
  g.enter("a", [&](error_code ec, lease l) {
    held = std::move(l);
    const std::int64_t at = ec || !held ? -1 : held.answer().at.time_since_epoch().count();
    if (::write(told, &at, sizeof at) != sizeof at) ::_exit(1);
  });
  io.run();
  ::_exit(0);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(concurrency_suite, fixture)

BOOST_AUTO_TEST_CASE(a_place_is_taken_seen_by_all_and_given_back) {
  const auto here = gate(2, 60s), there = gate(2, 60s);
  lease one = enter(here), two = enter(there);
  BOOST_TEST((one.is_held() && two.is_held()));
  const lease none = enter(here);
  BOOST_TEST(!none);
  BOOST_TEST(none.answer().used == 2);
  BOOST_TEST((none.answer().retry_after > 50s && none.answer().retry_after <= 60s));
  BOOST_TEST(client.must("PTTL", key).integer > 50'000);
  BOOST_TEST(client.must("PTTL", key).integer <= 60'001);
  BOOST_TEST(weir::test::fetch(io, there, "a").remaining == 0);
  one.release();
  ask_until([&] { return inside() == 1; });
  two.release();
  ask_until([&] { return client.must("EXISTS", key).integer == 0; });
}

// On one connection, what is given back is free for whoever asks next.
BOOST_AUTO_TEST_CASE(a_place_given_back_is_free_for_the_next_call) {
  const auto g = gate(1);
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 200; ++i) {
      const lease l = co_await g.enter("a");
      BOOST_TEST_REQUIRE(l.allowed());
    }
  });
  // Also when all of that leaves in one write: each has a call of its own, in order.
  std::vector<std::unique_ptr<entrance>> all;
  lease l = enter(g);
  server.pause();
  all.push_back(std::make_unique<entrance>(g));
  l.release();
  for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<entrance>(g));
  settle();
  server.resume();
  run_until(io, [&] { return all.back()->done; });
  BOOST_TEST((!all[0]->got && all[1]->got && !all[2]->got && !all[3]->got));
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
      const weir::decision d = co_await g.fetch("a");
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
  ask_until([&] { return inside() == 0; });
}

BOOST_AUTO_TEST_CASE(a_held_lease_outlasts_its_length) {
  const auto g = gate(2, 1s);
  const lease one = enter(g), two = enter(g);
  const double last = end() + 2'000'000;
  ask_until([&] { return end() > last; });
  BOOST_TEST((one.is_held() && two.is_held()));
  BOOST_TEST(inside() == 2);
  BOOST_TEST(!enter(g));
}

BOOST_AUTO_TEST_CASE(many_leases_are_kept_side_by_side) {
  const concurrency_limiter g(open(), "gate", {.limit = 500, .lease = 6s});
  std::vector<lease> held;
  for (int i = 0; i < 500; ++i) held.push_back(enter(g));
  const auto ends = [&] {
    std::vector<std::string> all;
    for (const auto& r : client.must("ZRANGE", key, 0, 0, "WITHSCORES").children)
      all.push_back(r.text);
    return std::stod(all.at(1));
  };
  const double last = end();
  ask_until([&] { return ends() > last; });  // all of them have been renewed
  BOOST_TEST(inside() == 500);
  std::size_t still = 0;
  for (const lease& l : held) still += l.is_held() ? 1 : 0;
  BOOST_TEST(still == 500u);
  held.clear();
  ask_until([&] { return inside() == 0; });
}

BOOST_AUTO_TEST_CASE(the_next_caller_reclaims_the_place_of_one_that_died) {
  constexpr auto length = 1500ms;
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  BOOST_TEST_REQUIRE(child >= 0);
  if (child == 0) hold_for_ever(options(), length, ends[1]);
  std::int64_t taken_at = -1;
  BOOST_TEST_REQUIRE(::read(ends[0], &taken_at, sizeof taken_at) == ssize_t{sizeof taken_at});
  BOOST_TEST(taken_at > 0);
  ::close(ends[0]);
  ::close(ends[1]);
  const std::string its_name = client.must("ZRANGE", key, 0, 0).children.at(0).text;

  const auto g = gate(2, length);
  const lease ours = enter(g);
  BOOST_TEST(ours.is_held());
  BOOST_TEST(!enter(g));
  // While it lives, it renews.
  const auto its_end = [&] {
    double latest = 0;
    const auto all = client.must("ZRANGE", key, 0, -1, "WITHSCORES").children;
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
      if (all[i].text == its_name) latest = std::stod(all[i + 1].text);
    }
    return latest;
  };
  const double first = its_end();
  BOOST_TEST(first > 0);
  ask_until([&] { return its_end() > first; });
  BOOST_TEST(!enter(g));
  ::kill(child, SIGKILL);
  BOOST_TEST(::waitpid(child, nullptr, 0) == child);
  const double lapses = its_end();
  lease l;
  ask_until([&] { return (l = enter(g)).allowed(); });
  BOOST_TEST(static_cast<double>(l.answer().at.time_since_epoch().count()) >= lapses);
  BOOST_TEST(l.answer().used == 2);
  BOOST_TEST(ours.is_held());
  BOOST_TEST(inside() == 2);
}

BOOST_AUTO_TEST_CASE(a_server_that_lost_its_data_means_a_lost_lease) {
  const auto g = gate(1, 600ms);
  lease l = enter(g);
  const loss watched(l);
  server.restart();
  watched.await(io);
  WEIR_TEST_ERROR(watched.ec(), error_code());
  BOOST_TEST(!l.is_held());
  const lease next = enter(g);
  BOOST_TEST(next.is_held());
  l.release();  // takes nobody's place
  BOOST_TEST(!enter(g));
}

BOOST_AUTO_TEST_CASE(a_key_that_was_deleted_means_a_lost_lease) {
  const auto g = gate(1, 300ms);
  const lease l = enter(g);
  const loss watched(l);
  client.must("DEL", key);
  watched.await(io);
  WEIR_TEST_ERROR(watched.ec(), error_code());
}

// Told by this process's own clock: the store says nothing.
BOOST_AUTO_TEST_CASE(a_server_out_of_reach_for_too_long_means_a_lost_lease) {
  const auto g = gate(1, 300ms);
  lease l = enter(g);
  const loss watched(l);
  server.pause();
  watched.await(io);
  WEIR_TEST_ERROR(watched.ec(), error_code());
  BOOST_TEST(!l.is_held());
  server.resume();
  l.release();
  lease next;
  ask_until([&] { return (next = enter(g)).allowed(); });
  BOOST_TEST(next.is_held());
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_no_lost_lease) {
  const auto g = gate(1, 3s);
  const lease l = enter(g);
  const loss watched(l);
  const double first = end();
  client.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  client.must("SCRIPT", "FLUSH");
  ask_until([&] { return end() > first; });
  BOOST_TEST(l.is_held());
  BOOST_TEST(!watched.told());
}

BOOST_AUTO_TEST_CASE(who_was_cancelled_while_the_answer_was_on_its_way_gives_it_back) {
  const auto g = gate(1);
  enter(g).release();
  ask_until([&] { return inside() == 0; });
  const int entered = runs_of("zadd");
  server.pause();
  entrance e(g);
  settle();
  e.signal.emit(cancellation_type::terminal);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, asio::error::operation_aborted);
  BOOST_TEST(!e.got);
  server.resume();
  BOOST_TEST(enter(g).allowed());
  BOOST_TEST(runs_of("zadd") == entered + 2);  // both had been let in
}

BOOST_AUTO_TEST_CASE(who_was_never_sent_has_nothing_to_give_back) {
  const auto g = gate(1);
  enter(g).release();
  ask_until([&] { return inside() == 0; });
  server.kill();
  settle();
  entrance e(g);
  e.signal.emit(cancellation_type::total);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, asio::error::operation_aborted);
  server.restart();
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
  ask_until([&] { return inside() == 0; });
  const int entered = runs_of("zadd");
  server.pause();
  entrance e(g, {.timeout = 20ms});
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, error::no_reply);
  server.resume();
  BOOST_TEST(enter(g).allowed());
  BOOST_TEST(runs_of("zadd") == entered + 2);
}

// The enter has run, and the connection breaks before the answer is there: the next one takes the place back.
BOOST_AUTO_TEST_CASE(an_enter_whose_answer_was_lost_is_given_back_on_the_next_connection) {
  weir::test::fault_proxy proxy(io, server);
  weir::redis_options o = options();
  o.port = static_cast<std::uint16_t>(proxy.port());
  const concurrency_limiter g(weir::make_redis_store(io.get_executor(), o), "gate",
                              {.limit = 1, .lease = 1h});
  enter(g).release();
  ask_until([&] { return inside() == 0; });
  proxy.strike({.what = weir::test::fault::kind::reset, .way = weir::test::way::replies, .after = 1});
  const int entered = runs_of("zadd");
  entrance e(g);
  run_until(io, [&] { return e.done; });
  WEIR_TEST_ERROR(e.ec, error::outcome_unknown);
  ask_until([&] { return inside() == 0; });
  BOOST_TEST(runs_of("zadd") == entered + 1);
  proxy.lift();
  BOOST_TEST(enter(g).allowed());
}

BOOST_AUTO_TEST_CASE(a_lease_counts_from_when_its_enter_was_sent) {
  constexpr auto length = 1s;
  server.kill();
  const auto g = gate(1, length);
  entrance e(g);
  asio::steady_timer longer(io, length + length / 10);
  bool over = false;
  longer.async_wait([&](error_code) { over = true; });
  run_until(io, [&] { return over; });
  BOOST_TEST(!e.done);
  server.restart();
  run_until(io, [&] { return e.done; });
  BOOST_TEST(e.got.is_held());
  const loss watched(e.got);
  redis_client again(server);
  const auto ends = [&] {
    return again.must("ZRANGE", key, 0, 0, "WITHSCORES").children.at(1).text;
  };
  const std::string first = ends();
  ask_until([&] { return ends() != first; });  // it is renewed as any other
  BOOST_TEST(!watched.told());
}

// In the sleep of the machine, say: whatever comes back has to ask again.
BOOST_AUTO_TEST_CASE(who_overslept_learns_that_others_are_in) {
  const auto g = gate(1, 200ms);
  const lease l = enter(g);
  const loss watched(l);
  asio::io_context elsewhere;
  {
    const concurrency_limiter there(weir::make_redis_store(elsewhere.get_executor(), options()),
                                    "gate", {.limit = 1, .lease = 200ms});
    lease other;
    // Only this context runs.
    for (bool in = false; !in;) {
      other = weir::test::enter(elsewhere, there, "a");
      in = other.allowed();
    }
    watched.await(io);
    WEIR_TEST_ERROR(watched.ec(), error_code());
    BOOST_TEST(!l.is_held());
  }
}

BOOST_AUTO_TEST_CASE(together_with_limiters_it_is_one_step) {
  const weir::store s = open();
  const concurrency_limiter g(s, "gate", {.limit = 2, .lease = 1h, .group = "partner"});
  const weir::limiter total(s, "total", weir::fixed_window{.limit = 4, .window = 24h},
                            {.group = "partner"});
  const weir::limiter each(s, "each",
                           weir::tiers(weir::token_bucket{.capacity = 3, .refill = weir::per_day(1)},
                                       weir::sliding_log{.limit = 3, .window = 24h}),
                           {.group = "partner", .feedback = true});
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    const std::array both{total.on("all"), each.on("a")};
    lease one = co_await g.enter("a", both), two = co_await g.enter("a", both);
    BOOST_TEST((one.is_held() && two.is_held()));
    const lease full = co_await g.enter("a", both);
    BOOST_TEST(!full);
    BOOST_TEST(full.answer().tier == 0);
    BOOST_TEST(full.answer().used == 2);
    BOOST_TEST((co_await total.fetch("all")).used == 2);
    one.release();
    const lease three = co_await g.enter("a", both);
    BOOST_TEST(three.is_held());
    two.release();
    const lease drained = co_await g.enter("a", both);
    BOOST_TEST(!drained);
    BOOST_TEST(drained.answer().tier == 2);
    BOOST_TEST((co_await g.fetch("a")).used == 1);
    BOOST_TEST((co_await total.fetch("all")).used == 3);
    co_await each.cool_down("b", 1h);
    const std::array held{each.on("b")};
    const lease none = co_await g.enter("a", held);
    BOOST_TEST((!none && none.answer().held));
    BOOST_TEST((co_await g.fetch("a")).used == 1);
  });
  ask_until([&] { return client.must("EXISTS", "weir:{partner}:gate:a:c").integer == 0; });
}

BOOST_AUTO_TEST_CASE(somebody_elses_key_is_told) {
  const auto g = gate(1);
  client.must("SET", key, "x");
  error_code ec;
  BOOST_TEST(!weir::test::enter(io, g, "a", ec));
  WEIR_TEST_ERROR(ec, error::wrong_type);
  BOOST_TEST(client.must("GET", key).text == "x");
}

BOOST_AUTO_TEST_SUITE_END()
