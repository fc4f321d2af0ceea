#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weir/event.hpp"
#include "weir/stats.hpp"

namespace weir::detail {

/// What happened to a connection, for store::stats() and events. It is told by connection_life, and
/// has no clock and no lock.
class link_history {
 public:
  using time = std::chrono::steady_clock::time_point;

  struct happening {
    event_kind what;
    error cause;
  };
  /// What happened since the last take(). More than these are not kept: the driver takes them
  /// after every event.
  struct happenings {
    std::array<happening, 8> all;
    std::size_t count = 0;
    const happening* begin() const noexcept { return all.data(); }
    const happening* end() const noexcept { return all.data() + count; }
  };

  void entered(connection_state s, time now) noexcept {
    if (s == state_) return;
    state_ = s;
    since_ = now;
  }
  void connected() noexcept {
    ++connects_;
    if (std::exchange(has_moved_, false)) add(event_kind::failed_over);
    add(event_kind::connected);
  }
  /// The connection that was just opened goes to another server than the last one.
  void moved() noexcept { has_moved_ = true; }
  /// An attempt or the connection ended with this error.
  void failed(error cause, time now) noexcept {
    last_error_ = cause;
    last_error_at_ = now;
  }
  void lost(error cause, time now) noexcept {
    failed(cause, now);
    add(event_kind::connection_lost, cause);
    const auto place = static_cast<std::size_t>(cause);
    ++lost_[place < lost_.size() ? place : 0];
  }
  void circuit(bool is_open) noexcept {
    if (is_open == circuit_is_open_) return;
    circuit_is_open_ = is_open;
    add(is_open ? event_kind::circuit_opened : event_kind::circuit_closed);
  }

  bool has_happenings() const noexcept { return new_.count != 0; }
  happenings take() noexcept {
    const happenings taken = new_;
    new_.count = 0;
    return taken;
  }

  /// `now` and `clock` are one moment.
  void read(connection_stats& into, time now, time_point clock) const {
    const auto at = [&](time t) {
      return clock - std::chrono::duration_cast<std::chrono::microseconds>(now - t);
    };
    into.state = state_;
    if (since_ != time{}) into.since = at(since_);
    into.connects = connects_;
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      if (lost_[i] != 0) into.lost.emplace_back(static_cast<error>(i), lost_[i]);
    }
    into.last_error = last_error_;
    if (last_error_ != error{}) into.last_error_at = at(last_error_at_);
    into.is_circuit_open = circuit_is_open_;
  }

 private:
  void add(event_kind what, error cause = {}) noexcept {
    if (new_.count < new_.all.size()) new_.all[new_.count++] = {what, cause};
  }

  connection_state state_ = connection_state::pausing;
  time since_{};
  std::uint64_t connects_ = 0;
  std::array<std::uint64_t, 64> lost_{};  // by error
  error last_error_{};
  time last_error_at_{};
  bool circuit_is_open_ = false, has_moved_ = false;
  happenings new_;
};

}  // namespace weir::detail
