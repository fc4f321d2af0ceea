#pragma once

#include <boost/intrusive/set.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "check/flight.hpp"
#include "waiting/waiter.hpp"

namespace weir::waiting {

class acquire_queue;

/// A queue's request to the store for a reservation, made for one waiter. Once the store has made
/// the reservation, the object is the reservation, and may pass to another waiter.
class reservation_request final : public detail::joint_check_of<detail::acquire_request>,
                                  public std::enable_shared_from_this<reservation_request> {
 public:
  using set_hook = waiter::set_hook;

  /// With the subjects and costs of the caller.
  reservation_request(const detail::check& caller, std::chrono::microseconds longest);

  void finish(detail::delivery how) override;

  /// Moves what the store has answered to `c`, an equal request, here.
  void take_answer_of(detail::check& c) noexcept;

  /// When the reservation is due, by this process's clock.
  steady_time due() const noexcept { return due_at; }
  /// The reserved time by the store's clock, without the postponement for a cool-down.
  time_point reserved_time() const noexcept { return answer.decided_at + answer.delay; }

  /// What the waiter `w` is told when the reservation is due. The store may have made it for
  /// another waiter, so `decided_at` and `delay` are moved to the time at which `w` got its own.
  decision decision_for(const waiter& w) const noexcept;
  /// What `w` is told if its max_wait ends before a cool-down, which lasts until `until`.
  decision refusal_for(const waiter& w, steady_time now, steady_time until) const;

  waiter* owner = nullptr;   // null: the waiter has left
  bool is_reserved = false;  // it is a reservation
  std::optional<detail::cancel_scope> cancelled;
  // The end of the cool-down that its queue knew when it made the request, or that the answer named
  steady_time known_cool_down{};
  std::uint32_t forgotten = 0;  // how many cool-downs its queue had forgotten by then
  // Set by the answer; of use for a reservation only:
  steady_time due_at{};
  std::uint64_t number = 0;                  // in the order of the answers
  std::chrono::nanoseconds postponed_by{0};  // how far a cool-down has postponed it
  std::chrono::nanoseconds late_by{0};       // how late it may be by the store's clock, at most
  set_hook by_time, by_cost;

  // Set by the acquire_queue:
  acquire_queue* queue = nullptr;
  detail::agenda_entry* line = nullptr;       // it lasts as long as the request
  std::shared_ptr<reservation_request> self;  // keeps it alive while the store has it
  bool is_started = false;
};

using request_ptr = std::shared_ptr<reservation_request>;

namespace order {

struct of_time {
  bool operator()(const reservation_request& a, const reservation_request& b) const noexcept {
    return a.due() != b.due() ? a.due() < b.due() : a.number < b.number;
  }
};
/// By cost, then by time. Also compares with a bare cost.
struct of_cost_and_time {
  bool operator()(const reservation_request& a, const reservation_request& b) const noexcept {
    return a.units != b.units ? a.units < b.units : of_time()(a, b);
  }
  bool operator()(const reservation_request& a, std::int64_t cost) const noexcept {
    return a.units < cost;
  }
  bool operator()(std::int64_t cost, const reservation_request& a) const noexcept {
    return cost < a.units;
  }
};

}  // namespace order

template <class Order, reservation_request::set_hook reservation_request::*Hook>
using reservation_set = boost::intrusive::multiset<
    reservation_request,
    boost::intrusive::member_hook<reservation_request, reservation_request::set_hook, Hook>,
    boost::intrusive::compare<Order>, boost::intrusive::constant_time_size<false>>;

using reservations_by_time = reservation_set<order::of_time, &reservation_request::by_time>;
using reservations_by_cost = reservation_set<order::of_cost_and_time,
                                             &reservation_request::by_cost>;

/// What a reservation_queue tells its driver to do.
struct orders {
  // Reservations to give back, before any start. At a close, each with the caller's check that ends
  // after it.
  std::vector<std::pair<request_ptr, detail::check*>> returns;
  std::vector<std::pair<request_ptr, detail::cancel_scope>> cancels;
  std::vector<request_ptr> starts;   // in this order
  detail::check_list told;           // callers' checks with their results
  std::shared_ptr<void> keep_alive;  // released when all orders are carried out
};

}  // namespace weir::waiting
