#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/set.hpp>
#include <optional>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Base of the entries of an agenda. An entry that is destroyed leaves its agenda.
struct agenda_entry
    : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  check::steady_time due = check::steady_time::max();  // max(): in no agenda

  bool operator<(const agenda_entry& other) const noexcept { return due < other.due; }
};

/// Entries by the time at which they are due; equal times in the order of put().
template <class Entry>
class agenda {
 public:
  using time = check::steady_time;

  /// Adds the entry or moves it; time::max() takes it out.
  void put(Entry& e, time due) {
    if (e.due == due) return;
    e.unlink();
    e.due = due;
    if (due != time::max()) entries_.insert(e);
  }

  /// When the first entry is due; time::max(): there is none.
  time next() const noexcept { return entries_.empty() ? time::max() : entries_.begin()->due; }

  /// The first entry if it is due, else null. It stays first until put() moves it.
  Entry* first_due(time now) noexcept {
    return entries_.empty() || next() > now ? nullptr : static_cast<Entry*>(&*entries_.begin());
  }

 private:
  boost::intrusive::multiset<agenda_entry, boost::intrusive::constant_time_size<false>> entries_;
};

/// One timer for an agenda. The owner's mutex guards all calls.
class alarm {
 public:
  using time = check::steady_time;

  /// Makes the timer. True if this call made it. An empty executor stops the alarm: the context is
  /// gone.
  bool start(const boost::asio::any_io_executor& executor) {
    if (!executor) stop();
    if (is_stopped_ || timer_) return false;
    timer_.emplace(executor);
    return true;
  }

  /// Calls `ring` at `when`, or at the time set before if that is earlier; time::max(): never.
  /// `ring` keeps the owner alive, and calls rang() before it sets the alarm again.
  template <class Ring>
  void set(time when, Ring ring) {
    if (!timer_ || (when >= set_to_ && when != time::max())) return;
    set_to_ = when;
    timer_->expires_at(when);
    // A timer without a purpose would keep run() from returning.
    if (when == time::max()) return;
    timer_->async_wait([ring](error_code ec) {
      if (!ec) ring();
    });
  }
  void rang() noexcept { set_to_ = time::max(); }

  /// Destroys the timer for good: the store closes, or the context is being destroyed.
  void stop() noexcept {
    is_stopped_ = true;
    timer_.reset();
  }
  bool is_stopped() const noexcept { return is_stopped_; }

 private:
  std::optional<boost::asio::steady_timer> timer_;
  time set_to_ = time::max();
  bool is_stopped_ = false;
};

}  // namespace weir::detail
