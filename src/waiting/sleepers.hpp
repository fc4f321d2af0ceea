#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "check/agenda.hpp"
#include "check/detached_check.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::waiting {

/// Holds the checks of acquire_all until their reservations are due; acquire() waits in an
/// acquire_queue instead. One timer serves all checks. A cancelled check gives its reservation
/// back. Thread-safe.
class sleepers final : public std::enable_shared_from_this<sleepers> {
 public:
  explicit sleepers(const boost::asio::any_io_executor& executor,
                    std::size_t max_sleepers = 100'000)
      : executor_(executor), max_sleepers_(max_sleepers) {}

  /// Takes over a check that the store has answered with a reservation, due after answer.delay.
  /// False if the caller has cancelled it, if max_sleepers checks sleep, or if the store is closing
  /// and the fallback made the reservation: then the check has its error, the reservation goes
  /// back, and the caller of this function finishes the check.
  bool add(detail::check& c);

  /// For a check that the store has finished: sleeping, on its way to add(), or on its way to its
  /// caller.
  void cancel(detail::check& c, detail::cancel_scope scope);

  /// Called when the store closes: gives all reservations back. Later ones are kept for
  /// give_back().
  void close();
  /// Gives back the reservations added after close(), the last one first.
  void give_back();
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

 private:
  using time = detail::check::steady_time;

  struct sleeper : detail::agenda_entry {
    explicit sleeper(detail::check& c) noexcept : caller(c) {}

    detail::check& caller;
  };

  void return_reservation(detail::check& c, error_code why);
  detail::check& remove(sleeper& s);
  bool postpone(detail::check& c, time now);
  void arm();
  void on_timer();

  boost::asio::any_io_executor executor_;
  const std::size_t max_sleepers_;
  reservation_returns returns_;
  std::mutex mutex_;
  // The mutex guards all members below.
  std::map<const detail::check*, sleeper> sleepers_;
  detail::agenda<sleeper> agenda_;
  detail::alarm alarm_;
  bool closed_ = false;
  std::vector<detail::returned_reservation> added_after_close_;
};

}  // namespace weir::waiting
