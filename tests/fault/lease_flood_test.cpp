// Leases of one process whose ordinary calls keep the same connection, and a healthy server, busy.
#include "support/leases.hpp"
#include "support/sanitized.hpp"
#include "support/stores.hpp"

namespace lease_flood_test {

using namespace weir;
using namespace weir::test;

policy day(int days) { return fixed_window{.limit = 1'000'000, .window = days * 24h}; }

BOOST_AUTO_TEST_SUITE(lease_flood_suite)

// 300 leases of 50 holders were lost in 8 s: their renewals waited behind 20,000 ordinary calls.
BOOST_AUTO_TEST_CASE(no_lease_lapses_behind_thirty_thousand_callers) {
  constexpr std::size_t callers = is_sanitized ? 5000 : 30'000;
  constexpr std::size_t holders = 50;
  // A stall of the machine must not last until a lease lapses: a renewal is due after a third.
  constexpr auto length = is_sanitized ? 2700ms : 900ms;
  redis_server server;
  redis_client client(server);
  asio::io_context io;
  const auto store = make_redis_store(io.get_executor(), patient_options(server));

  // A check is so much work that the line of these callers is longer than a lease, on a fast
  // machine too: a call that waits in it is late.
  const limiter ordinary(store, "r",
                         tiers{day(1), day(2), day(3), day(4), day(5), day(6), day(7), day(8)});
  std::size_t answered = 0, pending = 0;
  bool stop = false;
  const std::function<void(std::size_t)> call = [&](std::size_t who) {
    ++pending;
    ordinary.record("s" + std::to_string(who), [&, who](error_code ec, decision) {
      BOOST_TEST(!ec.failed(), ec.message());
      --pending;
      ++answered;
      if (!stop) call(who);
    });
  };

  const concurrency_limiter gate(store, "gate", {.limit = holders, .lease_duration = length});
  std::vector<lease> held;
  for (std::size_t i = 0; i < holders; ++i) held.push_back(enter(io, gate, "a"));
  const std::vector<loss> watched(held.begin(), held.end());
  const auto lost = [&] {
    std::size_t n = 0;
    for (const auto& w : watched) n += w.told() ? 1 : 0;
    return n;
  };
  // When the first of them lapses, by the server's clock in microseconds.
  const auto lapses = [&] {
    const auto all = client.must("ZRANGE", "weir:{gate:a}:c", 0, 0, "WITHSCORES").children;
    return all.empty() ? 0 : std::stod(all.at(1).text);
  };
  for (std::size_t i = 0; i < callers; ++i) call(i);

  // A renewal moves the lease's end by its length at the most: so each is renewed four times or
  // more.
  const double end = lapses() + 4 * std::chrono::duration<double, std::micro>(length).count();
  asio::steady_timer pause(io);
  while (lost() == 0 && lapses() < end) {
    bool over = false;
    pause.expires_after(10ms);
    pause.async_wait([&](error_code) { over = true; });
    run_until(io, [&] { return over; });
  }
  BOOST_TEST_MESSAGE(answered << " calls of " << callers << " callers, " << lost()
                              << " leases lost");
  BOOST_TEST(lost() == 0u);
  stop = true;
  run_until(io, [&] { return pending == 0; });
  BOOST_TEST(lost() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lease_flood_test
