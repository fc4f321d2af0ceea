#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "check/check_list.hpp"

namespace weir::detail {

/// The leases that one gate holds in this process: when each is to be renewed, and from when on it
/// is lost. Without timers, locks or a clock.
///
/// A lease is good for its length from the moment before the enter, or the last renewal that was
/// confirmed, left this process: the store counts from later on, so that it never gives a place
/// away which the holder still believes in. It is renewed at a third of that. A renewal that fails
/// is tried again after a tenth of the length, as long as there is time.
class lease_schedule {
 public:
  using time = std::chrono::steady_clock::time_point;
  using number = std::int64_t;

  enum class standing : std::uint8_t {
    held,
    lost,  ///< its time passed without a renewal; the store may still count it
    gone,  ///< lost, and the store has said that it does not know it
  };
  enum class outcome : std::uint8_t { kept, gone, unclear };

  struct entry {
    short_text subject;
    time good_until{};
    time due{};  // its place in the agenda
    standing stands = standing::held;
    check_list watchers = {};  // who wants to hear of its loss
  };
  struct event {
    number lease;
    bool lost;  ///< else it is to be renewed, and answered() is to be called with what came of it
  };

  explicit lease_schedule(std::chrono::microseconds length) noexcept : length_(length) {}

  void add(number lease, short_text subject, time sent);
  entry* find(number lease);
  /// Empty if it is not there.
  std::optional<entry> remove(number lease);

  /// When next() has to be called; time::max() for never.
  time wakeup() const noexcept;

  /// What is due, one at a time.
  std::optional<event> next(time now);

  /// `sent`: before the renewal left. True if the lease is lost by this.
  bool answered(number lease, outcome what, time sent, time now);

  /// Calls f(entry) for each.
  template <class F>
  void for_each(F&& f) {
    for (auto& [lease, e] : entries_) f(e);
  }

 private:
  void schedule(number lease, entry& e, time when);

  const std::chrono::microseconds length_;
  std::map<number, entry> entries_;
  std::set<std::pair<time, number>> agenda_;  // of those that are held
};

}  // namespace weir::detail
