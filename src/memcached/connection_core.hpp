#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "check/backoff.hpp"
#include "memcached/meta_reader.hpp"
#include "memcached/pipeline.hpp"
#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// The life of a connection to one server, over and over, without sockets, clocks or locks. It has
/// the states, the actions and the rules of redis::connection_core; the driver is told there. What
/// differs: the greeting is `mn`, `stats settings` and `stats`, and the caller's clock comes with
/// each event that may decide a check.
class connection_core {
 public:
  using time = pipeline::time;
  using instant = policies::instant;

  enum class state : std::uint8_t {
    pausing,   ///< no connection; the next attempt comes at a set time
    opening,   ///< the driver resolves and connects
    greeting,  ///< the server tells what it is
    ready,
    draining,  ///< given up; closing, until all operations have reported
    stopped,   ///< closed for good
  };

  struct actions {
    bool open = false;
    bool elsewhere = false;  ///< with open: try another address of the name first
    bool read = false;       ///< into room()
    bool close = false;      ///< end all operations; comes with no other action
    std::string_view write;  ///< if not empty; valid until written()
  };

  connection_core(const memcached_options& options, std::uint32_t seed);

  // For callers; see pipeline.
  void submit(detail::check& c, std::string_view key, time now) { pipeline_.submit(c, key, now); }
  void cancel(detail::check& c, detail::cancel_scope scope) { pipeline_.cancel(c, scope); }
  detail::check_list take_done() { return pipeline_.take_done(); }
  bool has_done() const noexcept { return pipeline_.has_done(); }
  detail::check_list abandon();
  bool close(time now);
  void stop_when_idle() noexcept { may_stop_ = true; }
  bool is_closing() const noexcept { return closed_ && !stopping_; }

  // For the driver.
  actions next(time now);
  bool has_actions() const noexcept;
  void opened(error e, time now);
  std::span<char> room() { return reader_.prepare(read_size); }
  void received(bool ok, std::size_t bytes, time now, instant clock);
  void written(bool ok, std::size_t bytes, time now);
  time wakeup() const noexcept {
    if (state_ == state::stopped) return time::max();
    return std::min({alarm_, pipeline_.wakeup(), is_closing() ? give_up_ : time::max()});
  }
  void on_time(time now);

  state current() const noexcept { return state_; }
  const class pipeline& line() const noexcept { return pipeline_; }

 private:
  static constexpr std::size_t read_size = 16 * 1024;

  enum class step : std::uint8_t { noop, settings, stats, over };

  void stop();
  void start_opening(time now);
  bool greet(const meta_reply& reply, time now, instant clock);
  bool hear_greeting(time now, instant clock);
  void lost(error reason, error suspicion = error{});
  void ended();
  void gone(time now);
  void pause(time now);
  void watch(time now);

  const memcached_options& options_;
  pipeline pipeline_;
  detail::backoff backoff_;
  meta_reader reader_;

  state state_ = state::pausing;
  time alarm_ = time::min();
  time greeted_{};        // greeting: when it was written
  time last_answer_{};    // ready: when the last reply that was due came
  time waiting_since_{};  // ready: since when a reply has been due all the time
  time clock_asked_{};    // ready: when the server's clock was asked for last
  error reason_{};        // draining: the error for the checks that were sent
  std::size_t sent_ = 0;  // draining: how many bytes of the last write were sent

  std::string greeting_;
  step step_ = step::noop;
  std::size_t max_value_ = 0;  // that the server takes
  bool told_time_ = false;

  bool open_wanted_ = false;
  bool close_wanted_ = false;
  bool greeting_wanted_ = false;
  bool heard_ = false;
  bool opening_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool was_ready_ = false;
  bool turned_away_ = false;
  bool closed_ = false;
  bool may_stop_ = false;
  bool stopping_ = false;
  time give_up_ = time::max();
};

}  // namespace weir::memcached
