#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "check/check_list.hpp"
#include "check/detached_check.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::detail {

/// Where those sleep who have a turn with several limiters at once; others sleep in a
/// acquire_queue. Each is woken once, when the turn has come; one timer serves all of them. Who is
/// cancelled gives the turn back. Any thread may call.
class sleepers final : public std::enable_shared_from_this<sleepers> {
 public:
  explicit sleepers(const boost::asio::any_io_executor& executor, std::size_t most = 100'000)
      : executor_(executor), most_(most) {}

  /// Takes over a check that its store is done with, and whose turn is answer.delay away from now.
  /// False if it was cancelled meanwhile, or all seats are taken, or the store is closing and has
  /// booked nothing: then it has its error, and is to be finished; its turn goes back.
  bool seat(check& c);

  /// Of a check that its store is done with: here, on its way here, or on its way to its caller.
  void cancel(check& c, cancel_scope scope);

  /// The store is closing: gives all turns back. Those of newcomers are kept for give_back().
  void close();
  /// Gives back what newcomers brought, the last turn first.
  void give_back();
  /// As shutdown_listener's.
  void context_shut_down() noexcept;

 private:
  using time = check::steady_time;

  void leave(check& c, error_code why);
  bool wait_for_pause(check& c, time now);
  void arm();
  void on_timer();

  boost::asio::any_io_executor executor_;
  const std::size_t most_;
  reservation_returns returned_;
  std::mutex mutex_;
  // Under the mutex:
  std::map<time, check_list> sleepers_;  // those of one time in the order in which they came
  std::size_t seated_ = 0;
  bool closed_ = false;
  std::vector<returned_reservation> leaving_;  // came after the close
  std::optional<boost::asio::steady_timer> timer_;
  time armed_ = time::max();
};

}  // namespace weir::detail
