// Turns whose callers leave while the connection is away, or is lost on the way back: they go back
// once.
#include "fault/proxied.hpp"

namespace give_back_test {

using namespace weir;
using namespace weir::test;

/// A unit passes each hour; turns are reserved ahead for days.
const policy policies[] = {
    fixed_window{.limit = 1, .window = 1h},
    sliding_log{.limit = 1, .window = 1h},
    token_bucket{.capacity = 1, .refill = per_hour(1)},
    leaky_bucket{.capacity = 100, .leak = per_hour(1)},
};

struct fixture : proxied {
  store straight = make_redis_store(io.get_executor(), patient_options(server));

  /// Callers in a line, each with a turn of its own.
  struct line {
    crowd c;
    std::deque<asio::cancellation_signal> signals;

    void join(const limiter& l) {
      l.acquire("a", {.max_wait = 24h},
                asio::bind_cancellation_slot(signals.emplace_back().slot(), c.caller()));
    }
    void leave(std::size_t i) { signals[i].emit(asio::cancellation_type::terminal); }
  };

  /// When a turn would be, if one more were reserved: in hours from now, rounded up.
  std::int64_t hours_booked(const limiter& l) {
    crowd c;
    l.record("a", c.caller());
    run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    const auto wait = c[0].d.allowed ? c[0].d.delay : c[0].d.retry_after;
    return std::chrono::ceil<std::chrono::hours>(wait).count();
  }
  std::int64_t markers() {
    redis_client client(server);
    return static_cast<std::int64_t>(client.must("KEYS", "weir:{*}:s*").children.size());
  }
};

BOOST_FIXTURE_TEST_SUITE(give_back_suite, fixture)

// The turn was told to go back while there was no connection, and that was forgotten after
// `timeout`: it kept everybody out for as long as it had been reserved.
BOOST_AUTO_TEST_CASE(a_reservation_cancelled_without_a_connection_goes_back_on_the_next) {
  options.timeout = 50ms;
  options.breaker_failures = 3;
  for (const policy& p : policies) {
    BOOST_TEST_CONTEXT("policy " << p.index()) {
      // The same without a fault.
      const std::string number = std::to_string(&p - policies);
      const limiter control(straight, "control" + number, p);
      record(control, "a");
      line undisturbed;
      for (int i = 0; i < 3; ++i) undisturbed.join(control);
      fetch(control, "a");
      const std::int64_t at_first = markers();
      for (std::size_t i = 0; i < 3; ++i) undisturbed.leave(i);
      run_until_complete(io, undisturbed.c);
      poll_until([&] { return markers() == at_first + 3; });
      const std::int64_t expected = hours_booked(control);
      BOOST_TEST(expected <= 2);  // a fixed_window keeps the window that the first of them opened

      const limiter l(open(), "r" + number, p);
      const limiter seen(straight, "r" + number, p);
      record(l, "a");
      line waiting;
      for (int i = 0; i < 3; ++i) waiting.join(l);
      // All three turns are reserved once a fourth call has been answered.
      fetch(l, "a");
      proxy.refuse(true);
      proxy.strike({.what = fault::kind::reset});
      for (std::size_t i = 0; i < 3; ++i) waiting.leave(i);
      run_until_complete(io, waiting.c);
      // Many calls come to nothing meanwhile, for longer than `timeout`.
      const auto end = std::chrono::steady_clock::now() + 4 * options.timeout;
      run_until(io, [&] {
        BOOST_TEST(record(l, "b").ec.failed());
        return std::chrono::steady_clock::now() >= end;
      });
      const std::int64_t before = markers();
      proxy.refuse(false);
      poll_until([&] { return markers() == before + 3; });
      BOOST_TEST(hours_booked(seen) == expected);
    }
  }
}

// Wherever the connection is cut: the reservation goes back once, and no other goes with it.
BOOST_AUTO_TEST_CASE(a_reservation_whose_give_back_is_cut_at_any_byte_goes_back_once) {
  const policy& p = policies[2];
  const limiter l(open(), "r", p);
  const limiter seen(straight, "r", p);
  record(l, "a");
  line waiting;
  std::size_t next = 0;
  // Two turns stay reserved all the while.
  for (int i = 0; i < 2; ++i) waiting.join(l);
  fetch(l, "a");
  BOOST_TEST(hours_booked(seen) == 3);
  std::size_t cut = 0;
  for (const way w : {way::requests, way::replies}) {
    for (std::size_t byte = 0;; byte += w == way::requests ? 61 : 7) {
      BOOST_TEST_CONTEXT("cut after " << byte << " bytes of the "
                                      << (w == way::requests ? "request" : "reply")) {
        record_until_it_succeeds(l, "between");
        waiting.join(l);
        next = waiting.signals.size() - 1;
        fetch(l, "a");
        const std::int64_t before = markers();
        const std::size_t faults = proxy.counts().all_faults();
        proxy.strike({.what = fault::kind::cut, .way = w, .after = byte});
        waiting.leave(next);
        poll_until([&] { return markers() == before + 1; });
        record_until_it_succeeds(l, "between");
        const bool was_cut = proxy.counts().all_faults() > faults;
        proxy.lift();
        BOOST_TEST(hours_booked(seen) == 3);
        cut += was_cut ? 1 : 0;
        if (!was_cut || byte > 1200) break;
      }
    }
  }
  BOOST_TEST(cut > 10u);
  for (std::size_t i = 0; i < 2; ++i) waiting.leave(i);
  run_until_complete(io, waiting.c);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace give_back_test
