// Callers that leave while others come: what they have reserved is used all the same. The store is
// a real server, with the test's clock and a way that takes time.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "simulation/simulated_time.hpp"
#include "support/random_source.hpp"
#include "support/redis_client.hpp"
#include "support/reservation_wire.hpp"
#include "support/sanitized.hpp"
#include "support/shifted_clock.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace leaving_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using std::chrono::microseconds;

constexpr std::int64_t ahead = 1'790'000'000'123'456;  // the server's clock, of the simulated one
constexpr std::int64_t second = 1'000'000;
// What a full bucket lets through at first does not count.
constexpr std::int64_t measured_from = 2 * second;
constexpr std::int64_t measured_until = (test::is_sanitized ? 4 : 8) * second;

struct servers {
  test::shifted_clock clock;
  test::redis_server redis{{.unix_socket = true, .environment = clock.environment()}};
};

/// Twice as many callers as the policy lets through come to one subject. They leave after a half to
/// one and a half of `patience`.
class run {
 public:
  run(servers& s, const policy& p, std::int64_t a_second, microseconds patience)
      : servers_(s),
        gap_(second / a_second / 2),
        patience_(patience.count()),
        wire_(wire_context_.io().get_executor(), s.redis,
              {.delay = [this] { return microseconds(random_.between(0, 8'000)); },
               .before_command = [this] { set_clock(); }}),
        limiter_(make_redis_store(context_.io().get_executor(), options()), "r", p) {
    wire_.expect("r", {p});
    set_clock();
    test::redis_client(s.redis).must("FLUSHALL");
  }

  /// Callers that went, in a second.
  double use() {
    const std::int64_t begin = simulation::now(), end = begin + measured_until;
    std::int64_t next = begin, before = 0;
    while (simulation::now() < end) {
      const std::int64_t leaves = leaving_.empty() ? never : leaving_.begin()->first;
      simulation::advance_to(std::min({next, leaves, simulation::next_timer()}));
      const std::int64_t now = simulation::now();
      while (!leaving_.empty() && leaving_.begin()->first <= now) {
        leaving_.begin()->second->emit(asio::cancellation_type::terminal);
        settle();
        leaving_.erase(leaving_.begin());
      }
      for (; next <= now; next += random_.between(0, 2 * gap_)) arrive(now);
      settle();
      if (now < begin + measured_from) before = went_;
    }
    return static_cast<double>(went_ - before) * second /
           static_cast<double>(measured_until - measured_from);
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  redis_options options() const {
    redis_options o;
    o.unix_path = wire_.path();
    o.timeout = 10s;
    return o;
  }

  void set_clock() { servers_.clock.stop_at(microseconds(ahead + simulation::now())); }

  void settle() {
    while (wire_context_.poll() + context_.poll() > 0) {
    }
  }

  void arrive(std::int64_t now) {
    auto leave = std::make_unique<asio::cancellation_signal>();
    const auto slot = leave->slot();
    leaving_.emplace(now + random_.between(patience_ / 2, patience_ * 3 / 2), std::move(leave));
    limiter_.acquire("a", {.max_wait = 5s},
                     asio::bind_cancellation_slot(slot, [this](error_code ec, const decision& d) {
                       if (!ec && d.allowed) ++went_;
                     }));
  }

  servers& servers_;
  test::random_source random_{test::run_seed(), 1200};
  const std::int64_t gap_, patience_;
  // Before the contexts: the calls that they destroy have slots of these.
  std::multimap<std::int64_t, std::unique_ptr<asio::cancellation_signal>> leaving_;
  simulation::simulated_context wire_context_, context_;
  test::reservation_wire wire_;
  limiter limiter_;
  std::int64_t went_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(leaving_suite)

// Each reservation went back behind a request that was under way, and was lost: of a bucket of 20
// units, two thirds and more.
BOOST_AUTO_TEST_CASE(the_limit_is_used_although_every_other_caller_leaves) {
  servers all;
  const struct {
    policy rules;
    std::int64_t a_second;
    microseconds patience;
  } cases[] = {{token_bucket{.capacity = 20, .refill = per_second(500)}, 500, 100ms},
               {sliding_log{.limit = 500, .window = 1s}, 500, 500ms},
               {fixed_window{.limit = 50, .window = 100ms}, 500, 250ms},
               {sliding_window{.limit = 50, .window = 100ms}, 500, 250ms}};
  for (const auto& [rules, a_second, patience] : cases) {
    BOOST_TEST_CONTEXT(to_string(rules) << ", WEIR_TEST_SEED=" << test::run_seed()) {
      const double use = run(all, rules, a_second, patience).use();
      BOOST_TEST_MESSAGE(to_string(rules) << ": " << use << "/s");
      BOOST_TEST(use >= 0.97 * static_cast<double>(a_second));
      BOOST_TEST(use <= 1.03 * static_cast<double>(a_second));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace leaving_test
