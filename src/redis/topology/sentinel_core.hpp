#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/backoff.hpp"
#include "base/lateness.hpp"
#include "link/connection_life.hpp"
#include "redis/resp/resp_reader.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// Asks Sentinels for the address of a master, and listens for its failovers, without sockets,
/// clocks or locks:
///
///     pausing --> opening --> asking --> watching --> draining --> pausing ...
///
/// It keeps one connection to one Sentinel. If that Sentinel does not answer, does not know the
/// master, or named a server that does not serve, the next one is asked. The driver calls next()
/// after every event, starts the actions, reports each one exactly once, and then looks for the
/// results: take_answer() and take_moved().
class sentinel_core {
 public:
  using time = std::chrono::steady_clock::time_point;

  enum class state : std::uint8_t {
    pausing,   ///< without a connection, until the alarm or ask()
    opening,   ///< resolving, connecting, TLS
    asking,    ///< connected; the Sentinel has not named the master yet
    watching,  ///< subscribed
    draining,  ///< given up; closing, until all operations have reported
    stopped,
  };

  /// The operations that the driver must start now.
  struct actions {
    const redis_address* open = nullptr;
    bool read = false;       ///< into room()
    bool close = false;      ///< end all operations; comes with no other action
    std::string_view write;  ///< if not empty; valid until written()
  };

  /// What ask() gets: the master, or why no Sentinel named it.
  struct answer {
    error failure{};
    std::string host = {};
    std::uint16_t port = 0;
  };

  /// `options` must outlive this.
  sentinel_core(const redis_options& options, std::uint32_t seed);

  /// Asks where the master is; the answer comes into take_answer() once. `elsewhere`: the server
  /// that was named last has not served, so ask another Sentinel.
  void ask(bool elsewhere, time now);
  /// Drops the pending ask().
  void forget() noexcept { wanted_ = false; }
  std::optional<answer> take_answer();
  /// True once after the Sentinel has announced another master than the last answer named, or has
  /// named another one for sure_after in replies to its own queries, because the announcement may
  /// have come while there was no connection. False before the first answer, and while an ask()
  /// waits: its answer names the new master.
  bool take_moved() noexcept { return std::exchange(moved_, false); }
  void stop();

  // For the driver; as in connection_core.
  actions next(time now);
  void opened(error e, time now);
  std::span<char> room() { return reader_.prepare(read_size); }
  void received(bool ok, std::size_t bytes, time now);
  void written(bool ok, time now);
  time wakeup() const noexcept { return until_.at; }
  void on_time(time now);

  state current() const noexcept { return state_; }

 private:
  static constexpr std::size_t read_size = 4 * 1024;
  static constexpr std::chrono::seconds sure_after{1};
  enum class question : std::uint8_t { hello, subscribe, address };

  void start_opening(time now);
  void greet(time now);
  void query(time now);
  void on_reply(const reply_view& reply, time now);
  void on_address(const reply_view& reply, time now);
  void on_push(const reply_view& push);
  void expect(question q, time now);
  void lost(error reason);
  void gone(time now);
  void try_next(error reason, time now);
  void watch(time now);

  const redis_options& options_;
  detail::backoff backoff_;
  reply_reader reader_;

  state state_ = state::pausing;
  // The next attempt, the end of the present one, or the next look at the silence.
  detail::limit until_{time{}};
  time last_reply_{};     // when the last reply that was due came
  time waiting_since_{};  // since when a reply has been due all the time
  error reason_{};        // draining: why
  std::size_t at_ = 0;    // the index of the Sentinel in use
  std::deque<question> due_;
  std::string out_;     // the write in progress
  std::string staged_;  // what the next write sends
  detail::connection_states::under_way under_way_;
  bool must_close_ = false;  // draining: the driver does not know yet

  bool wanted_ = false;    // an ask() waits
  std::size_t tries_ = 0;  // how many Sentinels may still be asked for it
  std::optional<answer> answer_;
  std::string named_;  // the last answer, as an announcement ends: " 10.0.0.2 6379"
  // The Sentinel in use names another one since then.
  std::optional<time> another_since_;
  bool moved_ = false;
  bool stopping_ = false;
};

}  // namespace weir::redis
