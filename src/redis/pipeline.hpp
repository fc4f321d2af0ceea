#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/flight.hpp"
#include "link/admission.hpp"
#include "link/send_window.hpp"
#include "link/sent_calls.hpp"
#include "redis/resp/resp_reader.hpp"
#include "redis/resp/resp_writer.hpp"
#include "redis/script/call_writer.hpp"
#include "redis/script/coalescer.hpp"
#include "redis/script/script_call.hpp"
#include "redis/server_scripts.hpp"
#include "redis/slot_map.hpp"
#include "redis/waiting_checks.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// The life of checks on one multiplexed connection, without sockets, clocks or locks:
///
///     waiting --> sent --> done               submit, next_write, consume
///
/// waiting: not sent yet. sent: encoded in the write in progress, or in one before; a reply is due.
/// Deadlines and cancellation take a check out at any stage; its place in the call stays, so that
/// later replies still reach their own checks. A check whose script certainly did not run (no such
/// script, the server is loading or busy, the write was cut short) goes back to waiting; in a Redis
/// Cluster, to its core.
///
/// send_window bounds the calls in flight to what the server answers soon; a check whose answer
/// would probably come after its deadline is not sent. While checks wait, at least one call is in
/// flight.
///
/// The driver does the I/O, passes the time, serialises the calls, and delivers take_done().
class pipeline : public detail::admission {
 public:
  /// `seed`: of the pauses between keys. `first_keys`: how many may be under way on a new
  /// connection.
  explicit pipeline(const redis_options& o, std::uint32_t seed = 1, std::size_t first_keys = 1)
      : admission(o),
        in_cluster_(!o.cluster_seeds.empty()),
        host_(o.host),
        first_keys_(first_keys),
        waiting_(in_cluster_),
        coalescer_(o.max_keys_per_call),
        window_(o.timeout, coalescer_.full_write(), seed) {}

  // For callers.

  /// Takes over a check. Finishes it at once (into take_done()) if it cannot wait: overloaded,
  /// closed, refused, or circuit_open.
  ///
  /// Renewals and leaves go before all other checks and are never refused as overloaded: a lease
  /// has at most one of each. They overtake no enter of their lease, which was answered or given up
  /// before.
  void submit(detail::check& c, time now);

  // For the connection.

  /// The handshake is complete; a reply in it took `round_trip` (zero: unknown). A script that is
  /// not `known` goes as text with the first call that needs it.
  void connected(const script_set& known = script_set().set(),
                 std::chrono::microseconds round_trip = {});

  /// The connection is lost, or connecting failed. `sent` bytes of the write in progress were sent.
  /// Checks that were sent fail with outcome_unknown (protocol_error if that was the reason); the
  /// others wait for the next connection.
  void disconnected(error reason, std::size_t sent, time now);

  /// Connecting failed for a lasting reason, such as a wrong password. Waiting checks, and new ones
  /// until the next connected(), fail with it; give-backs of reservations go on waiting.
  void refused(error reason);

  /// Encodes waiting checks, up to the bound of one write; `now` is their time of sending. Empty if
  /// no check waits, without a connection, during a write, or while send_window is full. The bytes
  /// stay valid until write_done() or disconnected().
  const std::string& next_write(time now = {});
  void write_done() noexcept { calls_.end_write(); }

  enum class stream_state : std::uint8_t {
    good,
    broken,  ///< not RESP, or not a reply that is due
    /// The server refuses to serve this connection (a replica, a lost login), or leave() was
    /// called. No reply is due and nothing was written since; the driver must make a new
    /// connection.
    unwelcome,
  };

  /// Answers checks from the replies that the reader holds.
  stream_state consume(reply_reader& reader, time now);

  /// True if the server has run a call on this connection without an error.
  bool has_served() const noexcept { return served_; }

  /// Writes nothing more on this connection. When no reply is due, consume() returns unwelcome.
  /// True if none is due now.
  bool leave() noexcept {
    is_unwelcome_ = true;
    return calls_.empty();
  }

  /// Adds a PING to the next write.
  void ping() { wanted_ |= wants_ping; }

  // For a Redis Cluster, which sends checks to the nodes.

  using redirected_checks = redis::redirected_checks;
  /// What a node answers to CLUSTER SLOTS: a map, or an error.
  struct map_answer {
    std::unique_ptr<slot_map> map;
    error failure{};
  };

  /// Takes over checks that wait already, with their deadlines, however many are pending.
  void resume(detail::check_list&& checks, time now);
  /// Moves redirected checks out, in order. Once a check has come back, nothing is written until
  /// proceed(); the cluster first takes the unsent checks that it holds with take_unsent().
  void take_redirected(std::vector<redirected_checks>& out);
  void proceed() noexcept { waiting_.proceed(); }
  /// Moves out the unsent checks for which `elsewhere` is true. Passed-over ones end instead: a
  /// later check of their keys may have been answered.
  void take_unsent(const std::function<bool(const detail::check&)>& elsewhere,
                   detail::check_list& out);
  /// Adds CLUSTER SLOTS to the next write.
  void ask_map() { wanted_ |= wants_map; }
  std::optional<map_answer> take_map() { return std::exchange(map_, std::nullopt); }
  bool has_news() const noexcept { return waiting_.is_held() || map_.has_value(); }
  bool is_refused() const noexcept { return refusal_ != error{}; }
  /// Why calls fail, or wait for a server that serves; zero: unknown.
  error trouble() const noexcept { return refusal_ != error{} ? refusal_ : suspicion_; }
  /// Why the server turned this connection away; zero: it did not.
  error farewell() const noexcept { return farewell_; }

  /// Ends all checks, also later ones: with store_closed, or outcome_unknown if sent. Until end(),
  /// the pipeline still takes give-backs, and waits for their answers and for those to sent
  /// acquires.
  void close();
  void end();

  // For the timer.

  /// When to call expire(); time::max(): never.
  time wakeup() const noexcept {
    return std::min({wheel_.next(), paused_until_, window_.wakeup()});
  }
  /// `late`: how long the process stood still, at least.
  void expire(time now, time::duration late = {});

  // For results.

  void read(connection_stats& into) const {
    admission::read(into);
    into.scripts_sent = scripts_sent_;
  }

  std::size_t replies_due() const noexcept { return calls_.size(); }
  bool wants_write() const noexcept {
    if (!connected_ || calls_.is_writing() || is_unwelcome_ || waiting_.is_held()) return false;
    return wanted_ != 0 ||
           (!is_paused() && (waiting_.has_urgent() || (window_.is_open() && !waiting_.is_empty())));
  }

  /// Removes all checks, without results: the execution context is being destroyed.
  detail::check_list abandon();

 private:
  bool is_paused() const noexcept { return paused_until_ != time::max(); }
  void enqueue(detail::check& c) {
    waiting_.add(c);
    wheel_.add(c);
  }
  bool comes_back_too_late(const detail::check& c, time now) const noexcept;
  /// When a check that is sent now is probably answered.
  time expected_answer(time now) const noexcept { return now + window_.expected(pending_); }
  call_list& pack(time now);
  void stage(script_call& c, time now);
  /// Writes a command of the connection itself, whose reply is due now.
  template <class... Words>
  void stage_own(script_call::command what, time now, const Words&... words) {
    write_command(out_, words...);
    script_call& c = calls_.emplace_back();
    c.what = what;
    c.sent = now;
    c.end = out_.size();
    calls_.staged();
  }
  void prefetch_calls() const noexcept;
  bool answer(script_call& c, const reply_view& reply, time now);
  void answer_own(const script_call& c, const reply_view& reply);
  bool answer_error(script_call& c, const reply_view& reply, error e, time now);
  void came_back(script_call& c, redirection&& why);

  const bool in_cluster_;   // the server is a node of a Redis Cluster
  const std::string host_;  // in a cluster: the host of a node that names none
  const std::size_t first_keys_;
  waiting_checks waiting_;
  coalescer coalescer_;
  detail::send_window window_;
  detail::sent_calls<call_list> calls_;
  server_scripts scripts_;
  std::uint64_t scripts_sent_ = 0;

  std::string out_;
  call_writer writer_;
  std::vector<std::int64_t> numbers_;

  static constexpr std::uint8_t wants_ping = 1, wants_map = 2;
  std::uint8_t wanted_ = 0;    // the connection's own commands for the next write
  bool is_unwelcome_ = false;  // nothing more is written on this connection
  error farewell_{};           // what the server said last, if that is why
  bool is_replica_ = false;    // the server refuses to write
  bool served_ = false;
  // The server was loading or busy: nothing is written before this time. time::max(): no pause.
  time paused_until_ = time::max();

  error_code asking_failure_;  // why the server has refused the last ASKING, or zero
  std::optional<map_answer> map_;
};

}  // namespace weir::redis
