#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/intrusive/list.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "base/alarm.hpp"
#include "check/check_list.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::waiting {

/// Runs acquire_all for one store; acquire() waits in an acquire_queue instead. Makes a request to
/// the store for each check, and holds the check until its reservation is due. One timer serves all
/// checks.
///
/// The reservation of a cancelled check goes back. If a new cool-down covers a reservation, it and
/// all behind it go back, and the store is asked for new ones in the same order: see
/// reservation_queue. Thread-safe.
class sleepers final : public std::enable_shared_from_this<sleepers> {
 public:
  explicit sleepers(const boost::asio::any_io_executor& executor,
                    std::size_t max_sleepers = 100'000)
      : executor_(executor), max_sleepers_(max_sleepers) {}

  /// Takes over a validated check. Does not finish it inside the call, unless the context is gone.
  void arrive(detail::check& c);
  /// Cancels a check, unless its result is on the way to its caller. With only_unsent, the check
  /// stays if its request was sent.
  void cancel(detail::check& c, detail::cancel_scope scope);

  /// Called when the limiter knows of a new or longer cool-down: see limiter_spec::cool_down_until.
  /// Replaces the subject's reservations inside it and all behind those. If its end is beyond a
  /// caller's max_wait, the caller is refused and its reservation goes back.
  void cool_down_began(const detail::limiter_spec& limiter, std::string_view subject);

  /// Called when the store closes: ends all waiting and gives the reservations back, when no answer
  /// is due. Keeps `keep_alive` until then.
  void close(const std::shared_ptr<void>& keep_alive);
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

 private:
  using time = detail::check::steady_time;
  class request;
  using request_ptr = std::shared_ptr<request>;

  struct group_member : boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {};

  /// The checks whose keys have one hash tag: their reservations may stand behind each other.
  struct tag_group {
    explicit tag_group(std::size_t hash) noexcept : tag(hash) {}

    const std::size_t tag;  // its hash
    std::size_t pending_requests = 0;
    std::size_t unstarted_requests = 0;      // of these
    std::vector<detail::check*> give_backs;  // not started yet
    boost::intrusive::list<group_member, boost::intrusive::constant_time_size<false>> members;
  };

  struct sleeper : detail::agenda_entry, group_member {
    sleeper(detail::check& c, std::uint64_t number, tag_group& its) noexcept
        : caller(c), arrival(number), group(its) {}
    /// Notes the reservation that the caller has got by this request.
    void reserve(time now, const detail::acquire_request& asked) noexcept;
    bool goes_before(const sleeper& other) const noexcept;

    detail::check& caller;
    const std::uint64_t arrival;  // unique
    time latest{};                // the end of max_wait, counted from the first answer
    time reserved{};              // when the reservation is due; agenda_entry::due may be postponed
    // The end of the cool-down that was known when the reservation was requested again, or that the
    // answer named
    time known_cool_down{};
    request_ptr pending;  // while the caller has no reservation
    tag_group& group;
  };
  /// A limiter with cool-downs, and the hash of a subject.
  using cooled = std::pair<const detail::limiter_spec*, std::size_t>;

  /// What follows from an event.
  struct results {
    detail::check_list done;
    std::vector<tag_group*> groups;  // in which something has changed
  };

  static bool from_fallback(const detail::check& c) noexcept {
    return c.answer.source == source::fallback;
  }
  sleeper& add(detail::check& c);
  detail::check& remove(sleeper& s, results& out);
  void enter_by_cooled(sleeper& s);
  void leave_by_cooled(sleeper& s);
  void make_request(sleeper& s, std::chrono::microseconds max_wait, bool is_first, results& out);
  void give_back(detail::check& c, tag_group& g);
  bool obey_cool_downs(sleeper& s, time now, results& out);
  void refuse(sleeper& s, time now, time until);
  void replace(sleeper& s, time now, results& out);
  void submit();
  void answered(request& r);
  void returns_are_sent();
  void dropped(request& r) noexcept;
  void on_timer();
  std::vector<request_ptr> take_to_start(results& out);
  void count_off(request& r, results& out);
  void take_answer(request& r, time now, results& out);
  void end_all(tag_group& g, results& out);
  void conclude(results& out);
  void arm();

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
  std::map<std::size_t, tag_group> groups_;  // by tag; each has a member or a pending request
  std::size_t pending_requests_ = 0;
  std::vector<request_ptr> to_start_;
  bool is_submitting_ = false;
  std::size_t unsent_returns_ = 0;  // calls of returns_.add(); no request starts before these
  bool closed_ = false;
  std::shared_ptr<void> keep_alive_;  // of a closing store
};

}  // namespace weir::waiting
