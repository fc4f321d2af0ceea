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
#include "check/alarm.hpp"
#include "check/check_list.hpp"
#include "check/detached_check.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::waiting {

/// Holds the checks of acquire_all until their reservations are due; acquire() waits in an
/// acquire_queue instead. One timer serves all checks. A cancelled check gives its reservation
/// back. A reservation that a new cool-down covers goes back, too, and the store is asked for a new
/// one: see reservation_queue. So do those behind it, which keeps the order. Thread-safe.
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
  /// Replaces the subject's reservations inside it and all behind those. If its end is beyond a
  /// caller's max_wait, the caller is refused and its reservation goes back.
  void cool_down_began(const detail::limiter_spec& limiter, std::string_view subject);

  /// Called when the store closes: gives all reservations back. Later ones are kept for
  /// give_back(). `keep_alive` is kept until new reservations that are being requested, and those
  /// that go back, have reached the store.
  void close(const std::shared_ptr<void>& keep_alive);
  /// Gives back the reservations added after close(), the last one first.
  void give_back();
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

 private:
  using time = detail::check::steady_time;
  class replacement;

  struct sleeper : detail::agenda_entry {
    sleeper(detail::check& c, std::uint64_t number, time now) noexcept;
    /// Notes the reservation that the caller has got by this request.
    void reserve(time now, const detail::acquire_request& asked) noexcept;
    bool goes_before(const sleeper& other) const noexcept;

    detail::check& caller;
    const std::uint64_t arrival;  // unique
    const time latest;            // the end of max_wait
    time reserved{};              // when the reservation is due; agenda_entry::due may be postponed
    // The end of the cool-down that was known when the reservation was requested, or that the
    // answer named
    time known_cool_down{};
    replacement* replacing = nullptr;  // while it has no reservation: the request for a new one
  };
  /// A limiter with cool-downs, and the hash of a subject.
  using cooled = std::pair<const detail::limiter_spec*, std::size_t>;

  /// What follows from a change.
  struct results {
    detail::check_list done;
    std::vector<std::shared_ptr<replacement>> replacements;
  };

  void return_reservation(detail::check& c, error_code why);
  detail::check& remove(sleeper& s);
  bool obey_cool_downs(sleeper& s, time now, results& out);
  void refuse(sleeper& s, time now, time until);
  void replace(sleeper& s, time now, results& out);
  void take_answer(replacement& r, time now, results& out);
  void send(results& out);
  void start(const std::vector<std::shared_ptr<replacement>>& replacements);
  void replaced(replacement& r);
  void dropped(replacement& r) noexcept;
  std::shared_ptr<void> count_off_replacement();
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
  std::uint64_t arrivals_ = 0;
  bool closed_ = false;
  std::vector<detail::returned_reservation> added_after_close_;
  std::size_t replacements_ = 0;      // those that have not ended
  std::shared_ptr<void> keep_alive_;  // of a closing store, until the last of them has ended
};

}  // namespace weir::waiting
