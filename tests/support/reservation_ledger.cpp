#include "support/reservation_ledger.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "support/expected_reservations.hpp"
#include "support/grants.hpp"

namespace weir::test {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

/// A log keeps the order, whichever waiter leaves; so do windows, by being opened ahead, and
/// queues. A bucket knows its level only.
bool keeps_order(const policy& p) { return std::holds_alternative<sliding_log>(p); }
bool is_bucket(const policy& p) {
  return std::holds_alternative<token_bucket>(p) || std::holds_alternative<gcra>(p);
}

}  // namespace

reservation_ledger::totals& reservation_ledger::totals::operator+=(const totals& other) {
  at_once += other.at_once;
  reserved += other.reserved;
  refused += other.refused;
  given_back += other.given_back;
  overtook += other.overtook;
  kept += other.kept;
  return *this;
}

std::string reservation_ledger::totals::text() const {
  return std::to_string(at_once) + " at once, " + std::to_string(reserved) + " reserved, " +
         std::to_string(refused) + " refused, " + std::to_string(given_back) + " given back, " +
         std::to_string(overtook) + " overtook, " + std::to_string(kept) + " units kept";
}

void reservation_ledger::fail(const event& e, const std::string& what) const {
  const asked& a = asked_[e.number];
  throw std::runtime_error("number " + std::to_string(e.number) + ", cost " +
                           std::to_string(a.cost) + ", at " + std::to_string(a.at) +
                           ", waits for " + std::to_string(a.max_wait) +
                           (a.allowed ? ", turn at +" : ", refused, turn at +") +
                           std::to_string(a.turn - a.at) + ": " + what);
}

reservation_ledger::totals reservation_ledger::check(std::span<const policy> policies) const {
  totals sum;
  expected_reservations expected(policies);
  std::vector<std::size_t> in_line(asked_.size(), none);
  for (const event& e : events_) {
    const asked& a = asked_[e.number];
    if (e.gives_back) {
      expected.give_back(e.at, in_line[e.number]);
      ++sum.given_back;
      continue;
    }
    const expected_reservations::turn t = expected.turn_of(a.at, a.cost);
    if (a.turn < t.earliest) fail(e, "too early, not before +" + std::to_string(t.earliest - a.at));
    if (a.turn > t.latest) fail(e, "too late, could be +" + std::to_string(t.latest - a.at));
    if (a.allowed && a.turn - a.at > a.max_wait) fail(e, "would not have waited for so long");
    if (!a.allowed && a.turn - a.at <= a.max_wait) fail(e, "refused for nothing");
    (a.allowed ? a.turn > a.at ? sum.reserved : sum.at_once : sum.refused) += 1;
    if (a.allowed) in_line[e.number] = expected.book(a.at, a.turn, a.cost);
  }
  sum.overtook = check_order(policies);

  std::vector<grant> kept;
  for (const expected_reservations::reservation& b : expected.reservations()) {
    if (!b.stands) continue;
    kept.push_back({b.turn, b.cost});
    sum.kept += b.cost;
  }
  for (const policy& p : policies) {
    if (const auto wrong = first_excess(p, kept, sum.given_back > 0)) {
      throw std::runtime_error(*wrong);
    }
  }
  return sum;
}

/// How many overtook.
std::int64_t reservation_ledger::check_order(std::span<const policy> policies) const {
  struct standing {
    std::int64_t turn;
    std::size_t number;
    std::size_t since;  // place among events_
    bool operator<(const standing& other) const {
      return turn != other.turn ? turn < other.turn : number < other.number;
    }
  };
  struct return_ {
    std::size_t place, number;
  };
  const bool may_overtake = std::any_of(policies.begin(), policies.end(), is_bucket) &&
                            std::none_of(policies.begin(), policies.end(), keeps_order);
  std::set<standing> line;
  std::vector<std::size_t> since(asked_.size());
  // The returned reservations that could have made room for one: the later and the further ahead,
  // the better.
  std::vector<return_> returns;
  std::int64_t count = 0;
  for (std::size_t place = 0; place < events_.size(); ++place) {
    const event& e = events_[place];
    const asked& a = asked_[e.number];
    if (!a.allowed) continue;
    if (e.gives_back) {
      line.erase({a.turn, e.number, 0});
      while (!returns.empty() && returns.back().number >= e.number) returns.pop_back();
      returns.push_back({place, e.number});
      continue;
    }
    while (!line.empty() && line.begin()->turn <= a.at) line.erase(line.begin());
    bool overtakes = false;
    for (auto s = line.upper_bound({a.turn, none, 0}); s != line.end(); ++s) {
      const auto r = std::find_if(returns.begin(), returns.end(),
                                  [&](const return_& one) { return one.place > s->since; });
      const bool into_a_gap = r != returns.end() && r->number < s->number;
      if (!may_overtake || !into_a_gap) {
        fail(e, "comes before number " + std::to_string(s->number) + ", whose turn is at " +
                    std::to_string(s->turn));
      }
      overtakes = true;
    }
    if (overtakes) ++count;
    line.insert({a.turn, e.number, place});
  }
  return count;
}

void reservation_ledger::check_as_if_they_had_never_come(std::span<const policy> policies) const {
  std::vector<bool> left(asked_.size(), false);
  for (const event& e : events_) {
    if (e.gives_back) left[e.number] = true;
  }
  expected_reservations expected(policies);
  for (const event& e : events_) {
    const asked& a = asked_[e.number];
    if (e.gives_back || left[e.number] || !a.allowed) continue;
    const std::int64_t turn = expected.turn_of(a.at, a.cost).latest;
    if (a.turn != turn)
      fail(e, "without those who left it would be +" + std::to_string(turn - a.at));
    expected.book(a.at, a.turn, a.cost);
  }
}

}  // namespace weir::test
