#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <cstdint>
#include <memory>

#include "policy/arithmetic.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

class reservation_request;

/// Who goes first: the larger priority, and of equal ones who came first. Priorities rise with
/// waiting, and all of them alike, so the order of two callers never changes: with an
/// priority_aging of `a`, whoever comes with a priority of `p` is ranked as if it had come `p * a`
/// earlier with none.
struct rank {
  policies::wide place;   // the smaller goes first
  std::uint64_t arrival;  // no two are equal

  rank(check::steady_time came, std::uint64_t number, std::int32_t priority,
       std::chrono::microseconds priority_aging) noexcept
      : arrival(number) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(came.time_since_epoch());
    place = priority_aging.count() == 0
                ? -policies::wide{priority}
                : age.count() - policies::wide{priority} * priority_aging.count();
  }
  friend auto operator<=>(const rank&, const rank&) = default;
};

/// A caller in a line, from its arrival until it is told.
struct waiter {
  using set_hook = boost::intrusive::set_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using time = check::steady_time;

  waiter(check& c, const rank& r, time until) noexcept : caller(&c), goes(r), latest(until) {}

  std::int64_t cost() const noexcept { return caller->cost; }

  check* caller;
  rank goes;
  time latest;   // when its patience ends
  time heard{};  // of one with a turn: since when
  time again{};  // of one whose question failed: when to ask once more
  std::shared_ptr<reservation_request> asked;  // under way for it, or its turn
  enum class where : std::uint8_t { arriving, outside, inside } stands = where::arriving;

  check::hook by_arrival, by_again;
  set_hook by_rank, by_cost, by_patience;
};

namespace order {

struct of_rank {
  bool operator()(const waiter& a, const waiter& b) const noexcept { return a.goes < b.goes; }
};
struct of_patience {
  bool operator()(const waiter& a, const waiter& b) const noexcept { return a.latest < b.latest; }
};
/// Those of one cost together, by rank. Compares with a mere cost, too.
struct of_cost {
  bool operator()(const waiter& a, const waiter& b) const noexcept {
    return a.cost() != b.cost() ? a.cost() < b.cost() : a.goes < b.goes;
  }
  bool operator()(const waiter& a, std::int64_t cost) const noexcept { return a.cost() < cost; }
  bool operator()(std::int64_t cost, const waiter& a) const noexcept { return cost < a.cost(); }
};

}  // namespace order

template <check::hook waiter::*Hook>
using waiter_list = boost::intrusive::list<waiter,
                                           boost::intrusive::member_hook<waiter, check::hook, Hook>,
                                           boost::intrusive::constant_time_size<false>>;

template <class Order, waiter::set_hook waiter::*Hook>
using waiter_set = boost::intrusive::multiset<
    waiter, boost::intrusive::member_hook<waiter, waiter::set_hook, Hook>,
    boost::intrusive::compare<Order>, boost::intrusive::constant_time_size<false>>;

using waiters_by_arrival = waiter_list<&waiter::by_arrival>;
using waiters_to_ask_again = waiter_list<&waiter::by_again>;
using waiters_by_rank = waiter_set<order::of_rank, &waiter::by_rank>;
using waiters_by_cost = waiter_set<order::of_cost, &waiter::by_cost>;
using waiters_by_patience = waiter_set<order::of_patience, &waiter::by_patience>;

}  // namespace weir::detail
