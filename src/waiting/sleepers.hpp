#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
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

  /// Called when the limiter knows of a new or longer cool-down: see limiter_spec::cool_down_until.
  /// Postpones the subject's reservations to its end. If that is beyond a caller's max_wait, the
  /// caller is refused and its reservation goes back.
  void cool_down_began(const detail::limiter_spec& limiter, std::string_view subject);

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
    sleeper(detail::check& c, time now) noexcept;

    detail::check& caller;
    const time reserved;  // when the reservation is due; agenda_entry::due may be postponed
    const time latest;    // the end of max_wait
  };
  /// A limiter with cool-downs, and the hash of a subject.
  using cooled = std::pair<const detail::limiter_spec*, std::size_t>;

  void return_reservation(detail::check& c, error_code why);
  detail::check& remove(sleeper& s);
  bool obey_cool_downs(sleeper& s, time now);
  void refuse(sleeper& s, time now, time until);
  void arm();
  void on_timer();

  boost::asio::any_io_executor executor_;
  const std::size_t max_sleepers_;
  reservation_returns returns_;
  std::mutex mutex_;
  // The mutex guards all members below.
  std::map<const detail::check*, sleeper> sleepers_;
  std::set<std::pair<cooled, sleeper*>> by_cooled_;
  detail::agenda<sleeper> agenda_;
  detail::alarm alarm_;
  bool closed_ = false;
  std::vector<detail::returned_reservation> added_after_close_;
};

}  // namespace weir::waiting
