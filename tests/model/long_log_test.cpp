// Logs of hundreds of entries out of which requests are taken back, anywhere: the kernel in C++,
// the script in a real server and a plain list of what is kept agree, and what was given back takes
// no room. A request with more than 128 newer entries stays.
#include "model/tier_script.hpp"
#include "support/random_source.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace long_log_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;
using policies::any_state;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

struct fixture : model::script_server {
  fixture() : script_server(980) {}
};

/// One subject of a log without a resolution.
class long_log {
 public:
  long_log(fixture& f, const sliding_log& p)
      : f_(f), window_(p.window.count()), limit_(p.limit), text_(test::text_of(policy(p))) {
    asked_.kernels.push_back(policies::compile(p));
    asked_.keys.push_back("k");
    asked_.costs.push_back(1);
    states_.emplace_back().emplace<policies::sliding_log::state>();
  }

  decision record(std::int64_t now, std::int64_t cost) {
    asked_.costs[0] = cost;
    auto found = f_.found_by(asked_, now);
    const decision d = policies::record_all<any_state>(asked_.tiers(states_), now);
    compare(d, policies::record_all<any_replay>(asked_.tiers(found), now));
    if (d.allowed) kept_.push_back({now, cost, d});
    return d;
  }

  decision book(std::int64_t now, std::int64_t cost) {
    asked_.costs[0] = cost;
    const std::int64_t max_wait = 10 * window_;
    const auto there = f_.reserve(asked_, now, 1, max_wait);
    const decision d = policies::reserve_all<any_state>(asked_.tiers(states_), now, max_wait);
    compare(d, there[0].said);
    if (d.allowed) kept_.push_back({now + d.delay.count(), cost, d});
    return d;
  }

  /// Takes back so much of a request that is kept, by its place. False if it stays.
  bool give_back(std::int64_t now, std::size_t which, std::int64_t cost) {
    asked_.costs[0] = cost;
    const policies::tickets known = policies::tickets_of(kept_[which].said);
    auto found = f_.give_back(asked_, now, known).left;
    policies::settle_all(asked_.tiers(states_), now, known);
    compare(policies::settled<any_state>(asked_.tiers(states_), now, true),
            policies::settled<any_replay>(asked_.tiers(found), now, true));
    if (newer_entries(which) > 128) return false;
    kept_[which].cost -= cost;
    if (kept_[which].cost == 0) kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(which));
    return true;
  }

  /// Requests of one time share an entry.
  std::int64_t newer_entries(std::size_t which) const {
    std::int64_t entries = 0;
    for (std::size_t i = which + 1; i < kept_.size(); ++i) {
      entries += kept_[i].turn != kept_[i - 1].turn;
    }
    return entries;
  }

  /// What a log of those that are kept would say, as far as no turns are ahead.
  void check(std::int64_t now, std::int64_t cost) {
    forget_what_left(now);
    std::int64_t sum = 0;
    for (const request& r : kept_) sum += r.cost;
    const std::int64_t excess = sum + cost - limit_;
    std::int64_t wait = 0, leaving = 0;
    for (auto r = kept_.begin(); leaving < excess; ++r) {
      leaving += r->cost;
      wait = r->turn + window_ - now;
    }
    asked_.costs[0] = cost;
    const decision d = policies::fetch_all<any_state>(asked_.tiers(states_), now);
    if (d.used != sum || d.retry_after.count() != wait) {
      fail(std::to_string(sum) + " in use and " + std::to_string(wait) + " to wait, not " +
           test::text_of(d));
    }
  }

  void forget_what_left(std::int64_t now) {
    while (!kept_.empty() && kept_.front().turn <= now - window_) kept_.pop_front();
  }
  std::size_t count() const { return kept_.size(); }
  std::int64_t cost_of(std::size_t which) const { return kept_[which].cost; }
  std::int64_t last_turn() const { return kept_.empty() ? 0 : kept_.back().turn; }
  std::int64_t entries() { return f_.client.must("LLEN", "k").integer; }

 private:
  struct request {
    std::int64_t turn, cost;
    decision said;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " " + text_ +
                             ": " + what);
  }
  void compare(const decision& here, const decision& there) const {
    if (here == there) return;
    fail("\n  C++: " + test::text_of(here) + "\n  Lua: " + test::text_of(there));
  }

  fixture& f_;
  const std::int64_t window_, limit_;
  const std::string text_;
  model::tier_script asked_;
  std::vector<any_state> states_;
  std::deque<request> kept_;
};

BOOST_FIXTURE_TEST_SUITE(long_log_suite, fixture)

BOOST_AUTO_TEST_CASE(what_is_taken_back_from_anywhere_is_gone_and_takes_no_room) {
  std::int64_t refunds = 0, stayed = 0, edge = 0, refused = 0, longest = 0;
  std::size_t widest = 0;
  for (int n = 0; n < 4; ++n) {
    client.must("FLUSHALL");
    const std::int64_t window = random.between(1000, 4000);
    long_log log(*this, {.limit = random.between(300, 1800), .window = microseconds(window)});
    const bool books = n % 2 == 1;
    // At first the log fills, then it is mostly given back, and so on.
    std::int64_t now = t0;
    for (int step = 0; step < 4000; ++step) {
      now += random.between(0, 2);
      const bool fills = step / 1000 % 2 == 0;
      const std::int64_t cost = random.between(1, 4);
      const decision d = books && random.one_in(4) ? log.book(now, cost) : log.record(now, cost);
      refused += !d.allowed;
      log.forget_what_left(now);
      for (int k = fills ? random.one_in(4) : 2; k > 0 && log.count() > 0; --k) {
        const auto last = static_cast<std::int64_t>(log.count()) - 1;
        auto which = static_cast<std::size_t>(
            random.one_in(2) ? random.between(0, last) : last - random.magnitude(last + 1) + 1);
        const std::int64_t newer = random.between(127, 129);
        if (random.one_in(4)) {
          while (which > 0 && log.newer_entries(which) < newer) --which;
          edge += log.newer_entries(which) == newer;
        }
        const std::int64_t taken = log.cost_of(which);
        const bool given = log.give_back(now, which,
                                         random.one_in(2) ? taken : random.between(1, taken));
        ++(given ? refunds : stayed);
      }
      if (log.last_turn() <= now) log.check(now, random.between(1, 20));
      longest = std::max(longest, log.entries());
      widest = std::max(widest, client.must("LINDEX", "k", "0").text.size());
      log.forget_what_left(now - 1);
    }
    // Let what has left be dropped.
    now += 1;
    if (log.last_turn() < now && log.record(now, 1).allowed) {
      log.forget_what_left(now);
      BOOST_TEST(log.entries() <= static_cast<std::int64_t>(log.count()) + 1);
    }
  }
  BOOST_TEST_MESSAGE(refunds << " refunds, " << stayed << " that gave nothing back, " << edge
                             << " at the edge, " << refused << " refused, at most " << longest
                             << " entries");
  BOOST_TEST(refunds > 2000);
  BOOST_TEST(stayed > 500);
  BOOST_TEST(edge > 500);
  BOOST_TEST(refused > 500);
  BOOST_TEST(longest > 200);
  BOOST_TEST(widest == 40u);
}

// 20,002 entries, of which one was in use.
BOOST_AUTO_TEST_CASE(records_that_are_refunded_at_once_leave_no_entries) {
  long_log log(*this, {.limit = 10, .window = std::chrono::hours(1)});
  std::int64_t now = t0;
  BOOST_TEST(log.record(now, 1).allowed);
  for (int i = 0; i < 2000; ++i) {
    BOOST_TEST(log.record(++now, 1).allowed);
    log.give_back(now, 1, 1);
  }
  log.check(now, 1);
  BOOST_TEST(log.entries() == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace long_log_test
