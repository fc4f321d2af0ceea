#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/agenda.hpp"
#include "check/flight.hpp"
#include "link/admission.hpp"
#include "link/send_window.hpp"
#include "link/sent_calls.hpp"
#include "memcached/check_batch.hpp"
#include "memcached/clock_guard.hpp"
#include "memcached/meta_reader.hpp"
#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// The life of checks on one multiplexed connection to one memcached server, without sockets,
/// clocks or locks. The checks of a key wait in the key's own line, which has at most one request
/// under way, so that one process never races itself:
///
///     idle --> ready --> reading --> deciding: no change --> idle or ready
///                ^                      |
///                |                      v
///             pausing <-- contention -- to_store --> storing --> stored --> idle or ready
///
/// A check waits until its line has read the value. Then the check runs on the value, and its
/// answer is right if the server stores the new value (compare and swap). If another process was
/// faster, the check waits again; a store that was sent and not answered is never repeated. If
/// nothing has to be stored, nothing proves that the value is still there: then only checks that
/// came before the read was sent are answered. Deadlines and cancellation take a check out at any
/// stage.
///
/// The driver does the I/O, passes the times, serialises the calls, and delivers take_done().
class pipeline : public detail::admission {
 public:
  /// After so many failed swaps a check gets error::store_contention.
  static constexpr std::uint8_t max_attempts = 100;

  pipeline(const memcached_options& o, std::uint32_t seed);

  // For callers.

  /// Takes over a check of the subject with this key (limiter_spec::append_subject_key()). Finishes
  /// it at once (into take_done()) if it cannot wait.
  void submit(detail::check& c, std::string_view key, time now);

  // For the connection.

  /// The connection serves; the server takes values up to `max_value`.
  void connected(std::size_t max_value, std::chrono::microseconds round_trip = {});
  /// As in redis::pipeline: `sent` bytes of the write in progress were sent. Checks whose store was
  /// sent fail with `reason`; the others wait for the next connection.
  void disconnected(error reason, std::size_t sent, time now);

  /// Takes the server's clock from a reply to a request sent `waited` before. While it differs too
  /// much from `clock`, all checks fail with error::clock_skew.
  void compare_clock(std::int64_t seconds, policies::instant clock,
                     std::chrono::microseconds waited, time now);
  bool is_skewed() const noexcept { return skewed_; }

  const std::string& next_write(time now);
  void write_done() noexcept { calls_.end_write(); }

  enum class stream_state : std::uint8_t {
    good,
    broken,  ///< not the meta protocol, or not a reply that is due
  };

  /// Handles the replies that the reader holds. `clock`: the caller's clock, by which checks are
  /// decided.
  stream_state consume(meta_reader& reader, time now, policies::instant clock);

  /// True if the server has answered a request for a key on this connection without an error.
  bool has_served() const noexcept { return served_; }
  void ping() noexcept { ping_wanted_ = true; }
  void ask_clock() noexcept { clock_wanted_ = true; }

  void close();
  void end();

  // For the timer.
  time wakeup() const noexcept { return std::min({wheel_.next(), next_retry(), window_.wakeup()}); }
  /// `late`: how long the process stood still, at least.
  void expire(time now, time::duration late = {});

  // For results.
  std::size_t replies_due() const noexcept { return calls_.size(); }
  std::size_t lines() const noexcept { return lines_.size(); }
  bool wants_write() const noexcept;
  detail::check_list abandon();

 private:
  enum class phase : std::uint8_t { idle, ready, late, reading, to_store, storing, pausing };

  using hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  /// The checks of one key. As an agenda's entry: when to try again.
  struct line : detail::agenda_entry {
    std::string_view key;        // in lines_
    detail::check_list waiting;  // in order
    detail::check_list sent;     // their answers are right if the store succeeds
    phase at = phase::idle;
    unsigned failures = 0;       // swaps in a row
    std::uint32_t reads = 0;     // requests for its value so far; a check's position is that number
    time latest = time::min();   // no deadline of `waiting` is later
    bool was_unchanged = false;  // the last value that was read did not have to be stored
    hook place;                  // in one of the lists below
    // of the value that was read, and of the one to store
    std::uint64_t cas = 0;
    check_batch::verdict verdict{};
    policies::instant ends = 0;
    policies::instant decided_at = 0;
    std::string value;
  };
  using line_list = boost::intrusive::list<line,
                                           boost::intrusive::member_hook<line, hook, &line::place>,
                                           boost::intrusive::constant_time_size<false>>;

  struct call {
    enum class command : std::uint8_t { get, store, ping, clock };
    command what;
    line* of = nullptr;
    std::size_t end = 0;  // of its bytes in the write
    time sent{};
    bool was_put_off = false;  // `sent` was moved on, because the process stood still
  };

  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  void fail_waiting(error e);
  template <class F>
  void each_line(F&& f);

  static void note_deadline(line& l, const detail::check& c) noexcept;
  void make_ready(line& l);
  void advance(line& l);
  void pause(line& l, time now);
  void take_back(line& l);
  void sweep();
  void end_pauses(time now);
  time next_retry() const noexcept { return connected_ ? retries_.next() : time::max(); }

  bool comes_too_late(const line& l, time now) const noexcept;
  std::size_t room(time now) const noexcept;
  void stage_ready(time now);
  void stage_get(line& l, time now);
  void stage_store(line& l, time now);
  void stage(call::command what, line* of, time now);

  bool answer(const meta_reply& reply, time now, policies::instant clock);
  /// Checks that wait for the next value.
  struct set_aside {
    detail::check_list urgent, others;
  };
  check_batch::result decide(line& l, const meta_reply& reply, policies::instant clock,
                             set_aside& later);
  bool answer_get(line& l, const meta_reply& reply, time now, policies::instant clock);
  bool answer_store(line& l, const meta_reply& reply, time now);
  bool answer_clock(const meta_reply& reply, time now, policies::instant clock);
  void set_skewed(bool is);

  std::size_t max_value_ = 0;  // that the server takes
  check_batch batch_;
  clock_guard guard_;
  std::minstd_rand random_;

  std::unordered_map<std::string, line, hash, std::equal_to<>> lines_;
  std::size_t sweep_at_ = 64;
  line_list stores_;  // to_store
  line_list urgent_;  // ready, with renewals or leaves: read before all others
  line_list ready_;
  line_list late_;                // would be answered too late
  detail::agenda<line> retries_;  // pausing

  detail::sent_calls<std::deque<call>> calls_;
  std::string out_;
  detail::send_window window_;  // of requests for keys

  bool ping_wanted_ = false;
  bool clock_wanted_ = false;
  bool served_ = false;
  bool skewed_ = false;
};

}  // namespace weir::memcached
