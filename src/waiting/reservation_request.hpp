#pragma once

#include <boost/intrusive/set.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "check/check_list.hpp"
#include "waiting/waiter.hpp"

namespace weir::detail {

class acquire_queue;

/// A line's question to the store for a turn, on behalf of one of its waiters. Once it is answered
/// with a turn, it stands for that turn, which may be passed on to another waiter.
class reservation_request final : public check,
                                  public std::enable_shared_from_this<reservation_request> {
 public:
  using set_hook = waiter::set_hook;

  /// For the subject and cost of `w`, which it belongs to from now on.
  static std::shared_ptr<reservation_request> make(waiter& w, std::chrono::microseconds max_wait);
  reservation_request(const check& caller, std::chrono::microseconds longest);

  void finish(delivery how) override;

  /// Of a turn: when it comes, by this process's clock.
  steady_time due() const noexcept { return deadline; }
  /// The same by the store's clock.
  time_point turn() const noexcept { return answer.decided_at + answer.delay; }

  waiter* for_whom = nullptr;  // nobody: who it was for has left
  bool is_inherited = false;   // another's before
  bool is_unwanted = false;    // a wish to cancel it is on its way
  bool is_turn = false;
  std::uint64_t number = 0;             // of a turn: in the order of the answers
  std::chrono::nanoseconds put_off{0};  // of a turn: for a cool-down
  set_hook by_time, by_cost;            // of a turn

  // Of the one who starts it.
  acquire_queue* queue = nullptr;
  std::shared_ptr<reservation_request> self;  // while a store has it
  bool is_started = false;
  std::optional<cancel_scope> unwanted_as;  // cancelled before it was started
};

using request_ptr = std::shared_ptr<reservation_request>;

namespace order {

struct of_time {
  bool operator()(const reservation_request& a, const reservation_request& b) const noexcept {
    return a.due() != b.due() ? a.due() < b.due() : a.number < b.number;
  }
};
/// Those of one cost together, by time. Compares with a mere cost, too.
struct of_cost_and_time {
  bool operator()(const reservation_request& a, const reservation_request& b) const noexcept {
    return a.cost != b.cost ? a.cost < b.cost : of_time()(a, b);
  }
  bool operator()(const reservation_request& a, std::int64_t cost) const noexcept {
    return a.cost < cost;
  }
  bool operator()(std::int64_t cost, const reservation_request& a) const noexcept {
    return cost < a.cost;
  }
};

}  // namespace order

template <class Order, reservation_request::set_hook reservation_request::*Hook>
using turn_set = boost::intrusive::multiset<
    reservation_request,
    boost::intrusive::member_hook<reservation_request, reservation_request::set_hook, Hook>,
    boost::intrusive::compare<Order>, boost::intrusive::constant_time_size<false>>;

using turns_by_time = turn_set<order::of_time, &reservation_request::by_time>;
using turns_by_cost = turn_set<order::of_cost_and_time, &reservation_request::by_cost>;

/// What a line wants done; it does nothing of it itself.
struct orders {
  std::vector<request_ptr> returns;  // turns to give back, before any start
  bool returns_are_known = false;    // to those who start
  std::vector<std::pair<request_ptr, cancel_scope>> cancels;  // asks that nobody wants
  std::vector<request_ptr> starts;                            // in this order
  check_list told;                                            // callers who have their result
  // Turns to give back, and who is told after that
  std::vector<std::pair<request_ptr, check*>> closing;
  std::shared_ptr<void> hold;  // let go of when all that is done
};

}  // namespace weir::detail
