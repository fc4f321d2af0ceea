#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "check/backoff.hpp"
#include "redis/handshake.hpp"
#include "redis/pipeline.hpp"
#include "redis/resp_reader.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// The life of a connection, over and over, without sockets, clocks or locks:
///
///     pausing --> opening --> greeting --> ready --> draining --> pausing ...
///
/// It decides when to open, what to write, when to read, when to give up, and how long to pause.
/// The driver calls next() after every event, starts the actions, and reports each one exactly
/// once: opened(), written(), received(). At most one of each is in progress. A new connection
/// starts only when all of them have reported (draining), so the core knows how much a write has
/// sent, and no late report can reach the next connection.
class connection_core {
 public:
  using time = pipeline::time;

  enum class state : std::uint8_t {
    pausing,   ///< no connection; the next attempt comes at a set time
    opening,   ///< the driver resolves, connects and secures
    greeting,  ///< the Redis handshake
    ready,
    draining,  ///< given up; closing, until all operations have reported
    stopped,   ///< closed for good
  };

  /// The operations that the driver must start now.
  struct actions {
    bool open = false;
    /// With open: try another address of the name first, because the last one has not served.
    bool elsewhere = false;
    bool read = false;       ///< into room()
    bool close = false;      ///< end all operations; comes with no other action
    std::string_view write;  ///< if not empty; valid until written()
  };

  connection_core(const redis_options& options, std::uint32_t seed);

  // For callers; see pipeline.
  void submit(detail::check& c, time now) { pipeline_.submit(c, now); }
  void cancel(detail::check& c, detail::cancel_scope scope) { pipeline_.cancel(c, scope); }
  detail::check_list take_done() { return pipeline_.take_done(); }
  bool has_done() const noexcept { return pipeline_.has_done(); }
  detail::check_list abandon();
  /// See store::close(). Waits for give-backs until `timeout` has passed; after stop_when_idle(),
  /// only until no check is pending. False if it was closed before.
  bool close(time now);
  void stop_when_idle() noexcept { may_stop_ = true; }
  /// True after close(), until it has stopped.
  bool is_closing() const noexcept { return closed_ && !stopping_; }

  // For a Redis Cluster; see pipeline.
  void resume(detail::check_list&& checks, time now) { pipeline_.resume(std::move(checks), now); }
  void take_redirected(std::vector<pipeline::redirected_checks>& out) {
    pipeline_.take_redirected(out);
  }
  void proceed() noexcept { pipeline_.proceed(); }
  template <class Predicate>
  void take_unsent(Predicate&& elsewhere, detail::check_list& out) {
    pipeline_.take_unsent(elsewhere, out);
  }
  void ask_map() { pipeline_.ask_map(); }
  std::optional<pipeline::map_answer> take_map() { return pipeline_.take_map(); }
  /// True if a connection came or went since take_news(), or the pipeline has news.
  bool has_news() const noexcept { return link_changed_ || pipeline_.has_news(); }
  /// What has become of the connection. `trouble`: why there is none; zero: unknown.
  struct link_news {
    bool is_new;  ///< something has changed
    bool is_ready;
    error trouble;
    bool is_lasting;  ///< reconnecting will probably not help
  };
  link_news take_news() noexcept {
    return {std::exchange(link_changed_, false), state_ == state::ready, pipeline_.trouble(),
            pipeline_.is_refused()};
  }

  // For the driver.
  actions next(time now);
  /// True if next() would return an action; cheap.
  bool has_actions() const noexcept {
    return open_wanted_ || close_wanted_ || (is_closing() && may_stop_ && pipeline_.is_idle()) ||
           (state_ == state::greeting && !writing_ && greeting_wanted_) ||
           (state_ == state::ready && !writing_ && pipeline_.wants_write());
  }

  /// From now on, logs in with these instead of the options' user and password.
  void log_in_with(redis_credentials login) { login_ = std::move(login); }
  /// Reports the end of an open. Zero: connected. tls_failed fails all checks until there is a
  /// connection. Other errors (closed_by_peer, host_not_found, connection_refused,
  /// host_unreachable) may pass: a check gets them at its deadline. After a close, the error tells
  /// how far the attempt came; tls_failed if the TLS handshake was not finished.
  void opened(error e, time now);
  std::span<char> room() { return reader_.prepare(read_size); }
  /// The server has moved: sends nothing more, and opens another connection when all that was sent
  /// is answered, or the server falls silent.
  void relocate(time now);
  /// Reports the end of a read. `why`, if not ok: tls_failed for a TLS alert, which a server may
  /// send after the handshake, when it rejects the client's certificate.
  void received(bool ok, std::size_t bytes, time now, error why = error::outcome_unknown);
  /// Reports the end of a write. `bytes` were passed to the system, also if it failed.
  void written(bool ok, std::size_t bytes, time now);

  /// When to call on_time(); time::max(): never.
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
  redis_credentials login_;
  pipeline pipeline_;
  detail::backoff backoff_;
  std::optional<handshake> handshake_;
  reply_reader reader_;

  state state_ = state::pausing;
  // pausing: the next attempt; opening, greeting: their limit; ready: the next check of silence
  time alarm_ = time::min();
  time greeted_{};        // greeting: when the last of it was written
  time last_answer_{};    // ready: when the last whole reply that was due came
  time waiting_since_{};  // ready: since when a reply has been due all the time
  error reason_{};        // draining: the error for the checks that were sent
  std::size_t sent_ = 0;  // draining: how many bytes of the last write were sent

  bool open_wanted_ = false;
  bool close_wanted_ = false;
  bool greeting_wanted_ = false;
  bool heard_ = false;  // greeting: the server has sent something
  bool opening_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool was_ready_ = false;
  bool link_changed_ = false;
  // The last address has not served or broke the protocol: the next open tries another one.
  bool turned_away_ = false;
  bool closed_ = false;
  bool may_stop_ = false;
  bool stopping_ = false;
  time give_up_ = time::max();  // closing: the end of waiting for give-backs
};

}  // namespace weir::redis
