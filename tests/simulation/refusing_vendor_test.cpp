// A vendor that blocks for a minute and refuses without a time: how many calls reach it meanwhile,
// and how soon its service is used again. Simulated time.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

#include "simulation/simulated_time.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace refusing_vendor_test {

using namespace weir;
using namespace weir::test;
using std::chrono::microseconds;

constexpr std::int64_t ahead = 1'790'000'000'123'456;  // the store's clock, of the simulated one
constexpr int callers_of_each = 20;

struct vendor {
  microseconds blocked_until{0};
  int refused = 0;
  std::vector<microseconds> refused_at = {};
  std::optional<microseconds> served_at = {};  // first

  int answer(microseconds now) {
    if (now >= blocked_until) {
      if (!served_at) served_at = now;
      return 200;
    }
    ++refused;
    refused_at.push_back(now);
    return 429;
  }
  /// The calls that came before any other caller could have heard of the one before.
  int bursts() const {
    int count = 0;
    for (std::size_t i = 0; i < refused_at.size(); ++i) {
      if (i == 0 || refused_at[i] > refused_at[i - 1] + 500ms) ++count;
    }
    return count;
  }
};

class fleet {
 public:
  fleet(int processes, const policy& p, bool doubles) {
    for (int i = 0; i < processes; ++i) {
      processes_.emplace_back(
          memory_, "r", p,
          limiter_options{.cool_downs = true, .default_cool_down_doubles = doubles});
    }
  }

  /// Lets all callers call for so long.
  void run(microseconds duration) {
    until_ = now() + duration;
    for (const limiter& l : processes_) {
      for (int i = 0; i < callers_of_each; ++i)
        asio::co_spawn(context_.io(), call(l), asio::detached);
    }
    context_.poll();
    while (simulation::next_timer() <= until_.count()) {
      simulation::advance_to(simulation::next_timer());
      context_.poll();
    }
    simulation::advance_to(until_.count());
    context_.poll();
  }
  /// What is left of the cool-down.
  microseconds left() {
    microseconds out{0};
    processes_.front().cool_down("a", 0s,
                                 [&](error_code, const decision& d) { out = d.retry_after; });
    context_.poll();
    return out;
  }
  static microseconds now() { return microseconds(simulation::now()); }

  refusing_vendor_test::vendor vendor;

 private:
  asio::awaitable<void> wait(microseconds time) {
    asio::steady_timer timer(context_.io(), time);
    co_await timer.async_wait(asio::deferred);
  }

  asio::awaitable<void> call(const limiter& l) {
    while (now() < until_) {
      const decision d = co_await l.record("a");
      if (d.allowed) {
        co_await wait(20ms);
        const int status = vendor.answer(now());
        co_await wait(20ms);
        co_await l.on_response("a", status, {});
      } else {
        co_await wait(d.retry_after);
      }
    }
  }

  simulation::simulated_context context_;
  weir::store memory_ = make_memory_store(
      context_.io().get_executor(),
      {.clock = [] { return time_point(microseconds(ahead + simulation::now())); }});
  std::vector<limiter> processes_;
  microseconds until_{0};
};

BOOST_AUTO_TEST_SUITE(refusing_vendor_suite)

BOOST_AUTO_TEST_CASE(a_minute_without_a_time_is_found_out_in_seven_bursts) {
  const token_bucket one_by_one{.capacity = 1, .refill = per_second(10)};
  const token_bucket in_bursts{.capacity = 20, .refill = per_second(100)};
  for (const token_bucket& p : {one_by_one, in_bursts}) {
    for (const int processes : {1, 4}) {
      for (const bool doubles : {false, true}) {
        fleet f(processes, p, doubles);
        f.vendor.blocked_until = f.now() + 60s;
        f.run(130s);
        const int burst = static_cast<int>(p.capacity);
        const auto& v = f.vendor;
        BOOST_TEST_REQUIRE(v.served_at.has_value());
        BOOST_TEST_MESSAGE(processes << " processes, bursts of " << burst << ", "
                                     << (doubles ? "doubled" : "not doubled") << ": " << v.refused
                                     << " refused calls in " << v.bursts()
                                     << " bursts, served again after "
                                     << (*v.served_at - v.blocked_until).count() / 1000 << " ms");
        if (doubles) {
          BOOST_TEST(v.bursts() <= 7);
          // A call is on its way for 40 ms, in which the bucket gets some units back.
          BOOST_TEST(v.refused <= 7 * (burst + 4));
          BOOST_TEST((*v.served_at <= v.blocked_until + 32s));
        } else {
          BOOST_TEST(v.bursts() >= 50);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(after_a_served_call_the_next_refusal_pauses_for_a_second_again) {
  for (const int processes : {1, 4}) {
    fleet f(processes, token_bucket{.capacity = 1, .refill = per_second(10)}, true);
    f.vendor.blocked_until = f.now() + 20s;
    f.run(32s);  // 1 + 2 + 4 + 8 + 16 s, and a little for calls and jitter
    BOOST_TEST(f.vendor.bursts() == 5);
    f.run(2s);
    BOOST_TEST_REQUIRE(f.vendor.served_at.has_value());
    f.vendor = {.blocked_until = f.now() + 1s};
    f.run(500ms);
    BOOST_TEST(f.vendor.bursts() == 1);
    BOOST_TEST((f.left() > 0s && f.left() < 1s));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refusing_vendor_test
