// What becomes of a lease when its holder, the connection or the server ends.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "integration/gate_fixture.hpp"

namespace lease_loss_test {

using namespace weir;
using namespace weir::test;

/// What a child process does: enters, tells its parent when by the server's clock, and holds on for
/// ever.
[[noreturn]] void hold_for_ever(const redis_options& options, std::chrono::microseconds length,
                                int told) {
  ::alarm(120);  // should the parent be gone
  asio::io_context io;
  const concurrency_limiter g(make_redis_store(io.get_executor(), options), "gate",
                              {.limit = 2, .lease_duration = length});
  lease held;
  g.enter("a", [&](error_code ec, lease l) {
    held = std::move(l);
    const std::int64_t at = ec || !held ? -1
                                        : held.decision().decided_at.time_since_epoch().count();
    if (::write(told, &at, sizeof at) != sizeof at) ::_exit(1);
  });
  io.run();
  ::_exit(0);
}

BOOST_FIXTURE_TEST_SUITE(lease_loss_suite, gate_fixture)

BOOST_AUTO_TEST_CASE(a_held_lease_outlasts_its_length) {
  const auto g = gate(2, 1s);
  const lease one = enter(g), two = enter(g);
  const double last = end() + 2'000'000;
  poll_until([&] { return end() > last; });
  BOOST_TEST((one.is_held() && two.is_held()));
  BOOST_TEST(inside() == 2);
  BOOST_TEST(!enter(g));
}

BOOST_AUTO_TEST_CASE(many_leases_are_kept_side_by_side) {
  const concurrency_limiter g(open(), "gate", {.limit = 500, .lease_duration = 6s});
  std::vector<lease> held;
  for (int i = 0; i < 500; ++i) held.push_back(enter(g));
  const auto ends = [&] {
    std::vector<std::string> all;
    for (const auto& r : client.must("ZRANGE", key, 0, 0, "WITHSCORES").children)
      all.push_back(r.text);
    return std::stod(all.at(1));
  };
  const double last = end();
  poll_until([&] { return ends() > last; });  // all of them have been renewed
  BOOST_TEST(inside() == 500);
  std::size_t still = 0;
  for (const lease& l : held) still += l.is_held() ? 1 : 0;
  BOOST_TEST(still == 500u);
  held.clear();
  poll_until([&] { return inside() == 0; });
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
  poll_until([&] { return its_end() > first; });
  BOOST_TEST(!enter(g));
  ::kill(child, SIGKILL);
  BOOST_TEST(::waitpid(child, nullptr, 0) == child);
  const double lapses = its_end();
  lease l;
  poll_until([&] { return (l = enter(g)).allowed(); });
  BOOST_TEST(static_cast<double>(l.decision().decided_at.time_since_epoch().count()) >= lapses);
  BOOST_TEST(l.decision().used == 2);
  BOOST_TEST(ours.is_held());
  BOOST_TEST(inside() == 2);
}

BOOST_AUTO_TEST_CASE(a_server_that_lost_its_data_means_a_lost_lease) {
  for (const bool restarts : {false, true}) {
    client.must("DEL", key);  // the leave of the round before may be on its way
    const auto g = gate(1, 600ms);
    lease l = enter(g);
    const loss watched(l);
    restarts ? server.restart() : void(client.must("DEL", key));
    watched.await(io);
    WEIR_TEST_ERROR(watched.ec(), error_code());
    BOOST_TEST(!l.is_held());
    const lease next = enter(g);
    BOOST_TEST(next.is_held());
    l.release();  // frees no other lease
    BOOST_TEST(!enter(g));
  }
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
  poll_until([&] { return (next = enter(g)).allowed(); });
  BOOST_TEST(next.is_held());
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_no_lost_lease) {
  const auto g = gate(1, 3s);
  const lease l = enter(g);
  const loss watched(l);
  const double first = end();
  client.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  client.must("SCRIPT", "FLUSH");
  poll_until([&] { return end() > first; });
  BOOST_TEST(l.is_held());
  BOOST_TEST(!watched.told());
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
  poll_until([&] { return ends() != first; });  // it is renewed as any other
  BOOST_TEST(!watched.told());
}

// The lease would stay taken until it lapses, with nobody in it.
BOOST_AUTO_TEST_CASE(a_leave_that_the_server_refuses_is_repeated) {
  const auto g = gate(1, 30s);
  lease l = enter(g);
  client.must("ACL", "SETUSER", "default", "-zrem");
  l.release();
  poll_until([&] { return !client.must("ACL", "LOG").children.empty(); });
  BOOST_TEST(inside() == 1);
  client.must("ACL", "SETUSER", "default", "+zrem");
  // A lapsed lease would not be removed by ZREM.
  poll_until([&] {
    return client.must("INFO", "commandstats").text.find("cmdstat_zrem:calls=1") !=
           std::string::npos;
  });
  BOOST_TEST(inside() == 0);
}

// In the sleep of the machine, say: whatever comes back has to ask again.
BOOST_AUTO_TEST_CASE(a_holder_that_overslept_learns_that_others_are_in) {
  const auto g = gate(1, 200ms);
  const lease l = enter(g);
  const loss watched(l);
  asio::io_context elsewhere;
  {
    const concurrency_limiter there(make_redis_store(elsewhere.get_executor(), options()), "gate",
                                    {.limit = 1, .lease_duration = 200ms});
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lease_loss_test
