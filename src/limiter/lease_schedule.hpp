#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "base/agenda.hpp"
#include "check/flight.hpp"

namespace weir::detail {

/// The leases of one gate in this process: when each is due for renewal, and when it is lost. It
/// has no timer, lock or clock.
///
/// The duration of a lease counts from before the enter, or the last confirmed renewal, left this
/// process. The store counts from a later time, so it gives no lease away that the holder still
/// counts as held. The renewal is due at a third of the duration. A failed renewal is repeated
/// after a tenth of the duration, as long as there is time; so is a failed leave. But a leave whose
/// connection was lost is repeated at once, most_losses times: it waits for the next connection.
class lease_schedule {
 public:
  using time = std::chrono::steady_clock::time_point;
  using number = std::int64_t;

  static constexpr int most_losses = 3;
  static constexpr std::size_t most_leaves = 10'000;

  enum class standing : std::uint8_t {
    held,
    lost,  ///< its duration passed without a renewal; the store may still count it
    gone,  ///< lost, and the store answered that it does not know the lease
  };
  enum class outcome : std::uint8_t { kept, gone, unclear };

  struct entry : agenda_entry {
    number lease = 0;
    short_text subject;
    time good_until{};
    standing stands = standing::held;
    check_list watchers = {};  // finished when the lease is lost or released
  };
  /// A leave that the store has not confirmed.
  struct open_leave {
    number lease;
    short_text subject;
    time good_until;  // then the lease has lapsed
    int losses = 0;   // how often its connection was lost
  };

  explicit lease_schedule(std::chrono::microseconds length) noexcept : length_(length) {}

  void add(number lease, short_text subject, time sent);
  entry* find(number lease);
  /// Empty if the lease is unknown.
  std::optional<entry> remove(number lease);

  /// When to call next() and next_leave(); time::max(): never.
  time wakeup() const noexcept {
    return leaves_.empty() ? agenda_.next() : std::min(agenda_.next(), leaves_.begin()->first);
  }

  /// The next lease that is due: it is lost, or the caller renews it and then calls answered().
  /// Null when no more are due.
  entry* next(time now);

  /// Notes the outcome of a renewal. `sent` is a time before it left this process. True if the
  /// lease is lost by this outcome.
  bool answered(number lease, outcome what, time sent, time now);

  /// Returns the leave if it is to be repeated at once. Else next_leave() returns it when it is
  /// due, unless most_leaves wait for that already or the lease will have lapsed.
  std::optional<open_leave> leave_failed(open_leave leave, bool was_connection_lost, time now);

  /// The next leave that is to be repeated; empty when no more are due.
  std::optional<open_leave> next_leave(time now);

  /// Calls f(entry) for each lease.
  template <class F>
  void for_each(F&& f) {
    for (auto& [lease, e] : entries_) f(e);
  }

 private:
  void schedule(entry& e, time when) { agenda_.put(e, std::min(when, e.good_until)); }

  const std::chrono::microseconds length_;
  std::map<number, entry> entries_;
  agenda<entry> agenda_;                    // the held leases
  std::multimap<time, open_leave> leaves_;  // by when they are due
};

}  // namespace weir::detail
