// Checks of one key leave in the order in which they were made, whatever else is in the line: calls
// that are full, checks that travel alone, deadlines that cannot be met.
#include "redis/script/coalescer.hpp"
#include "support/fake_check.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace coalescer_order_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check;
using weir::detail::check_kind;
using weir::detail::check_list;
using weir::detail::cluster_route;
using weir::redis::coalescer;
using weir::redis::script_call;
using time = check::steady_time;

constexpr time start{1h};

std::vector<std::string> keys_of(const check& c) {
  std::vector<std::string> keys;
  weir::detail::for_each_tier(
      c, [&](const weir::detail::limiter_spec& limiter, std::string_view subject, std::int64_t,
             std::size_t tier) { limiter.append_key(keys.emplace_back(), subject, tier); });
  return keys;
}

/// A line of random checks of few subjects, of which several writes take some.
class line_of_checks {
 public:
  explicit line_of_checks(std::uint64_t seed, std::uint32_t stream) : random_(seed, stream) {}

  std::size_t sent = 0, given_up = 0, left = 0;

  void play() {
    coalescer packer(static_cast<std::size_t>(random_.between(1, 40)));
    for (int write = 0; write < 12; ++write) {
      const std::int64_t more = random_.between(0, 60);
      for (int i = 0; i < more; ++i) add();
      check_list urgent, passed_over;
      const coalescer::quota quota{
          .keys = static_cast<std::size_t>(random_.one_in(3) ? random_.between(1, 40) : 1000),
          .reachable = random_.one_in(2) ? start : start + 1s};
      const auto& calls = packer.pack(urgent, line_, quota, passed_over);
      for (const check& c : passed_over) {
        waiting_.erase(c.flight.order);
        ++given_up;
      }
      passed_over.clear();
      for (const script_call& call : calls) {
        for (const auto& key : call.keys) {
          for (const check& c : key.checks) note_sent(c);
        }
      }
    }
    left += waiting_.size();
    BOOST_TEST_REQUIRE(line_.size() == waiting_.size());
    line_.clear();
  }

 private:
  void add() {
    static const fixed_window window{.limit = 9, .window = 10s};
    static const limiter_options group{.group = "g"};
    static const core_ptr limiters[] = {
        make_core("w", window, group), make_core("w", tiers(window, window), group),
        make_core("w", sliding_log{.limit = 9, .window = 10s, .count_refused = true}, group),
        make_core("other", token_bucket{9, per_second(1)}, group)};
    static const check_kind kinds[] = {check_kind::record, check_kind::record, check_kind::record,
                                       check_kind::fetch,  check_kind::reset,  check_kind::acquire,
                                       check_kind::settle};
    const core_ptr& limiter = random_.pick(limiters);
    const std::string subject(1, static_cast<char>('a' + random_.between(0, 3)));
    const check_kind kind = random_.pick(kinds);
    std::vector<weir::detail::term> further;
    if (kind == check_kind::record && random_.one_in(5)) {
      const core_ptr& second = limiter == limiters[3] ? limiters[0] : limiters[3];
      further.push_back({second, weir::detail::short_text(subject), 1});
    }
    fake_check& c = checks_.emplace_back(limiter, subject, random_.between(1, 2), kind, 0us,
                                         std::move(further));
    auto& f = c.check().flight;
    f.order = static_cast<std::uint32_t>(checks_.size());
    f.deadline = start + (random_.one_in(6) ? 0ms : 2000ms);
    if (random_.one_in(20)) c.check().route.value = cluster_route::alone;
    waiting_[f.order] = &c.check();
    line_.push_back(c);
  }

  void note_sent(const check& c) {
    BOOST_TEST_REQUIRE(waiting_.erase(c.flight.order) == 1u);
    ++sent;
    const auto own = keys_of(c);
    for (const auto& [order, other] : waiting_) {
      if (order > c.flight.order) break;
      for (const std::string& key : keys_of(*other)) {
        for (const std::string& k : own) {
          BOOST_TEST_REQUIRE(k != key,
                             "check " << c.flight.order << " of " << k << " goes before " << order);
        }
      }
    }
  }

  random_source random_;
  std::deque<fake_check> checks_;
  check_list line_;
  std::map<std::uint32_t, const check*> waiting_;
};

BOOST_AUTO_TEST_SUITE(coalescer_order_suite)

// A check that cannot be answered in time is passed over. If a later check goes, it is given up; it
// never goes behind that one.
BOOST_AUTO_TEST_CASE(no_check_goes_before_an_earlier_one_of_its_key) {
  const std::uint64_t seed = run_seed();
  std::size_t sent = 0, given_up = 0, left = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed << " round " << round) {
      line_of_checks one(seed, 4200 + round);
      one.play();
      sent += one.sent;
      given_up += one.given_up;
      left += one.left;
    }
  }
  BOOST_TEST_MESSAGE(sent << " sent, " << given_up << " given up, " << left << " left");
  BOOST_TEST(sent > 10'000u);
  BOOST_TEST(given_up > 100u);
  BOOST_TEST(left > 100u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace coalescer_order_test
