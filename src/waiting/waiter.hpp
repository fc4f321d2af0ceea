#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <cstdint>

#include "check/flight.hpp"
#include "policy/arithmetic.hpp"
#include "waiting/reservation.hpp"

namespace weir::waiting {

/// The order of waiters: the larger priority first, then the earlier arrival. All priorities rise
/// alike with waiting, so the order of two waiters never changes: with a priority_aging of `a`, a
/// waiter of priority `p` ranks as if it had come `p * a` earlier with priority 0.
struct rank {
  policies::wide key;     // the smaller goes first; microseconds with aging, else -priority
  std::uint64_t arrival;  // unique

  rank(detail::check::steady_time came, std::uint64_t number, std::int32_t priority,
       std::chrono::microseconds priority_aging) noexcept
      : arrival(number) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(came.time_since_epoch());
    key = priority_aging.count() == 0
              ? -policies::wide{priority}
              : age.count() - policies::wide{priority} * priority_aging.count();
  }
  friend auto operator<=>(const rank&, const rank&) = default;
};

/// A caller of acquire() that the store's first answer has made wait, until it has its result. It
/// has a reservation; or it waits to ask the store again after a failure; or it asks again.
struct waiter : detail::queued_waiter {
  using list_hook = detail::check::hook;
  using set_hook = boost::intrusive::set_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using time = detail::check::steady_time;

  waiter(detail::check& c, const rank& r, time until, std::chrono::microseconds longest) noexcept
      : caller(&c), order(r), latest(until), max_wait(longest) {}

  bool has_reservation() const noexcept { return by_due.is_linked(); }
  std::int64_t cost() const noexcept { return caller->units; }

  detail::check* const caller;
  const rank order;
  time latest;                               // the end of its max_wait
  const std::chrono::microseconds max_wait;  // the caller's; its check carries what is left of it
  time reserved_at = time::min();            // when it got its reservation; min(): never
  time repeat_at{};                          // after a failure: when to ask again
  reservation held;                          // if it has one

  list_hook by_event;  // among those that ask again, or that will
  set_hook by_rank, by_due, by_cost_and_due, by_cost_and_rank;
};

namespace order {

struct of_rank {
  bool operator()(const waiter& a, const waiter& b) const noexcept { return a.order < b.order; }
};
struct of_due {
  bool operator()(const waiter& a, const waiter& b) const noexcept {
    return a.held.due != b.held.due ? a.held.due < b.held.due : a.held.number < b.held.number;
  }
};
/// By cost, then by the order of `Next`. Also compares with a bare cost.
template <class Next>
struct of_cost_and {
  bool operator()(const waiter& a, const waiter& b) const noexcept {
    return a.cost() != b.cost() ? a.cost() < b.cost() : Next()(a, b);
  }
  bool operator()(const waiter& a, std::int64_t cost) const noexcept { return a.cost() < cost; }
  bool operator()(std::int64_t cost, const waiter& a) const noexcept { return cost < a.cost(); }
};
using of_cost_and_rank = of_cost_and<of_rank>;
using of_cost_and_due = of_cost_and<of_due>;

}  // namespace order

using waiter_list = boost::intrusive::list<
    waiter, boost::intrusive::member_hook<waiter, waiter::list_hook, &waiter::by_event>,
    boost::intrusive::constant_time_size<false>>;

template <class Order, waiter::set_hook waiter::*Hook>
using waiter_set = boost::intrusive::multiset<
    waiter, boost::intrusive::member_hook<waiter, waiter::set_hook, Hook>,
    boost::intrusive::compare<Order>, boost::intrusive::constant_time_size<false>>;

using waiters_by_rank = waiter_set<order::of_rank, &waiter::by_rank>;
using waiters_by_due = waiter_set<order::of_due, &waiter::by_due>;
using waiters_by_cost_and_due = waiter_set<order::of_cost_and_due, &waiter::by_cost_and_due>;
using waiters_by_cost_and_rank = waiter_set<order::of_cost_and_rank, &waiter::by_cost_and_rank>;

}  // namespace weir::waiting
