#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "redis/backoff.hpp"
#include "redis/handshake.hpp"
#include "redis/pipeline.hpp"
#include "redis/resp_reader.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// The life of a connection, over and over, without sockets, clocks or locks:
///
///     pausing --> opening --> greeting --> ready --> draining --> pausing ...
///
/// It decides when to open, what to write, when to read, when to give up, and how long to pause.
/// Whoever drives it asks next() after every event, starts what it names, and reports each thing it
/// started exactly once: opened(), written(), received(). At most one of each is under way. A
/// connection is given up only when all of them have come back (draining): so what a write has sent
/// is known, and nothing late can meet the next connection.
class connection_core {
 public:
  using time = pipeline::time;

  enum class state : std::uint8_t {
    pausing,   ///< no connection; the next attempt comes at a set time
    opening,   ///< the driver resolves, connects and secures
    greeting,  ///< the Redis handshake
    ready,
    draining,  ///< given up; closing, until everything under way has come back
    stopped,   ///< closed for good
  };

  /// What the driver has to start now.
  struct actions {
    bool open = false;
    /// Open at another address, if the name has several: the one before has not served.
    bool elsewhere = false;
    bool read = false;       ///< into room()
    bool close = false;      ///< ends what is under way; comes with nothing else
    std::string_view write;  ///< if not empty; valid until written()
  };

  connection_core(const redis_options& options, std::uint32_t seed);

  // Callers; see pipeline.
  void submit(detail::check& c, time now) { pipeline_.submit(c, now); }
  void cancel(detail::check& c, detail::cancel_scope scope) { pipeline_.cancel(c, scope); }
  detail::check_list take_done() { return pipeline_.take_done(); }
  detail::check_list abandon();
  /// See store::close(). What gives back is waited for until `timeout` has passed; after the next
  /// call, no longer than it takes. False if it was closed before.
  bool close(time now);
  void stop_when_idle() noexcept { may_stop_ = true; }
  /// Closed, and not stopped yet.
  bool is_closing() const noexcept { return closed_ && !stopping_; }

  // The driver.
  actions next(time now);
  /// Whether next() would name anything; cheap.
  bool has_actions() const noexcept;

  /// A zero error: there is a connection. tls_failed is what the callers are told until there is
  /// one. Others (closed_by_peer, host_not_found, connection_refused, host_unreachable) may change
  /// at any time: a caller is told at its deadline. After a close: how far the attempt had come;
  /// tls_failed if the server had not finished the TLS handshake.
  void opened(error e, time now);
  std::span<char> room() { return reader_.prepare(read_size); }
  /// `why`, if not ok: tls_failed for a refusal in TLS, which a server may utter after the
  /// handshake, as it looks at the client's certificate.
  void received(bool ok, std::size_t bytes, time now, error why = error::outcome_unknown);
  /// `bytes`: how many were passed on, also when it failed.
  void written(bool ok, std::size_t bytes, time now);

  /// When on_time() has to be called next; time::max() for never.
  time wakeup() const noexcept {
    if (state_ == state::stopped) return time::max();
    return std::min({alarm_, pipeline_.wakeup(), is_closing() ? give_up_ : time::max()});
  }
  void on_time(time now);

  state current() const noexcept { return state_; }
  const class pipeline& line() const noexcept { return pipeline_; }

 private:
  static constexpr std::size_t read_size = 16 * 1024;

  void stop();
  void start_opening(time now);
  void greet();
  void lost(error reason, error suspicion = error{});
  void ended();
  void gone(time now);
  void pause(time now);
  void watch(time now);

  const redis_options& options_;
  pipeline pipeline_;
  backoff backoff_;
  std::optional<redis::handshake> handshake_;
  redis::reply_reader reader_;

  state state_ = state::pausing;
  // Pausing: the next attempt; opening, greeting: the limit; ready: the next look
  time alarm_ = time::min();
  time greeted_{};        // greeting: when the last of it was written
  time last_answer_{};    // ready: when a whole reply came last that was due
  time waiting_since_{};  // ready: since when a reply has been due without a break
  error reason_{};        // draining: what the callers are told
  std::size_t sent_ = 0;  // draining: how much of the last write was passed on

  bool open_wanted_ = false;
  bool close_wanted_ = false;
  bool greeting_wanted_ = false;
  bool heard_ = false;  // greeting: the server has said something
  bool opening_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool was_ready_ = false;
  // By an address that has not served, or broke: it is another one's turn
  bool turned_away_ = false;
  bool closed_ = false;
  bool may_stop_ = false;
  bool stopping_ = false;
  time give_up_ = time::max();  // closing: what has not come back is not waited for any longer
};

}  // namespace weir::net
