#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <cstdint>
#include <memory>

#include "check/flight.hpp"
#include "policy/arithmetic.hpp"

namespace weir::waiting {

class reservation_request;

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

/// A caller of acquire() in a queue, from its arrival until it has its result.
struct waiter : detail::queued_waiter {
  using list_hook = detail::check::hook;
  using set_hook = boost::intrusive::set_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using time = detail::check::steady_time;

  waiter(detail::check& c, const rank& r, time until) noexcept
      : caller(&c), order(r), latest(until) {}

  const detail::acquire_request& request() const noexcept {
    return detail::as<detail::acquire_request>(*caller);
  }
  std::int64_t cost() const noexcept { return caller->units; }

  detail::check* caller;
  rank order;
  time latest;                                       // the end of its max_wait
  time reserved_at = time::min();                    // when it got its reservation; min(): never
  time repeat_at{};                                  // after a failed request: when to repeat it
  std::shared_ptr<reservation_request> reservation;  // its pending request or its reservation

  list_hook by_repeat;
  set_hook by_rank, by_cost;
};

namespace order {

struct of_rank {
  bool operator()(const waiter& a, const waiter& b) const noexcept { return a.order < b.order; }
};
/// By cost, then by rank. Also compares with a bare cost.
struct of_cost {
  bool operator()(const waiter& a, const waiter& b) const noexcept {
    return a.cost() != b.cost() ? a.cost() < b.cost() : a.order < b.order;
  }
  bool operator()(const waiter& a, std::int64_t cost) const noexcept { return a.cost() < cost; }
  bool operator()(std::int64_t cost, const waiter& a) const noexcept { return cost < a.cost(); }
};

}  // namespace order

template <waiter::list_hook waiter::*Hook>
using waiter_list = boost::intrusive::list<
    waiter, boost::intrusive::member_hook<waiter, waiter::list_hook, Hook>,
    boost::intrusive::constant_time_size<false>>;

template <class Order, waiter::set_hook waiter::*Hook>
using waiter_set = boost::intrusive::multiset<
    waiter, boost::intrusive::member_hook<waiter, waiter::set_hook, Hook>,
    boost::intrusive::compare<Order>, boost::intrusive::constant_time_size<false>>;

using waiters_to_repeat = waiter_list<&waiter::by_repeat>;
using waiters_by_rank = waiter_set<order::of_rank, &waiter::by_rank>;
using waiters_by_cost = waiter_set<order::of_cost, &waiter::by_cost>;

}  // namespace weir::waiting
