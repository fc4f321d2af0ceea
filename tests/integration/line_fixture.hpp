#pragma once

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

/// Limiters in front of which somebody waits, in memory and at a real server.
namespace weir::test::waiting {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::cancellation_type;

inline const auto aborted = asio::error::operation_aborted;
inline constexpr token_bucket one_a_day{.capacity = 1, .refill = per_day(1)};
/// A turn comes within a day of the one before: half of it passes until that one leaves the present
/// window.
inline constexpr sliding_window at_least_one_a_day{.limit = 1, .window = 12h};
inline constexpr acquire_options patiently{.max_wait = 31 * 24h};

struct fixture {
  redis_server server;
  redis_client client{server};
  asio::io_context io;

  store open(bool in_memory) {
    return in_memory ? make_memory_store(io.get_executor())
                     : make_redis_store(io.get_executor(), patient_options(server));
  }
  template <class F>
  void on_both(F&& f) {
    for (const bool in_memory : {true, false}) {
      BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) { f(open(in_memory)); }
    }
  }
  template <class Start>
  decision answer(Start&& start) {
    crowd c;
    start(c.caller());
    run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    return c[0].d;
  }
  /// Lets everything happen that does not need time: the answers of as many fetches have come.
  void settle(const limiter& l) {
    for (int i = 0; i < 3; ++i) answer([&](auto h) { l.fetch("another", h); });
  }
  std::int64_t script_calls() {
    const std::string stats = client.must("INFO", "commandstats").text;
    const auto at = stats.find("cmdstat_evalsha:calls=");
    return at == std::string::npos ? 0 : std::stoll(stats.substr(at + 22));
  }
};

/// How many script calls book `n` equal reservations, all requested before the first write. Every
/// call but the last is full: a write takes whole calls as long as the send window holds at least
/// one write, and no answer here is so late that the window would shrink.
inline constexpr std::int64_t full_calls(std::int64_t n, std::int64_t tiers = 1) {
  const std::int64_t in_call = 64 / tiers;
  return (n + in_call - 1) / in_call;
}

struct cancellable_crowd {
  crowd c;
  std::deque<asio::cancellation_signal> signals;

  auto caller() { return asio::bind_cancellation_slot(signals.emplace_back().slot(), c.caller()); }
  void cancel(std::size_t i, cancellation_type how = cancellation_type::terminal) {
    signals[i].emit(how);
  }
};

inline time_point turn_of(const decision& d) { return d.decided_at + d.delay; }

/// Whether the turns of a sliding window are ones that its formula allows: the counts of the
/// windows, aligned as in the store.
inline void check_window(const std::vector<time_point>& turns, const sliding_window& policy) {
  std::map<std::int64_t, std::int64_t> counts;
  const std::int64_t w = policy.window.count();
  std::vector<std::int64_t> times;
  for (const auto& t : turns) times.push_back(t.time_since_epoch().count());
  std::sort(times.begin(), times.end());
  for (const std::int64_t t : times) {
    const std::int64_t number = t / w, left = w - t % w;
    const auto current = ++counts[number];
    const auto before = counts.find(number - 1);
    const std::int64_t previous = before == counts.end() ? 0 : before->second;
    BOOST_REQUIRE(previous * left + current * w <= policy.limit * w);
  }
}

}  // namespace weir::test::waiting
