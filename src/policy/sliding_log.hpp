#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/arithmetic.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Every admitted request by its time, with a running total (modulo 2^52) instead of its cost: what a stretch of the log
/// sums up to is one subtraction, so both "what has left" and "when has enough left" are binary searches. Requests of
/// one time share an entry.
///
/// With a resolution, a request is entered at the end of its bucket. A clock behind the newest entry's time (its
/// bucket's beginning) is read as that time; behind by more than a window, the log becomes one entry of now.
///
/// With count_refused, an entry weighs no more than the limit, and entries that can no longer matter (the newer ones alone
/// fill the limit) are dropped: a flood cannot grow the log, and `used` stays below twice the limit.
class sliding_log {
 public:
  struct entry {
    instant time;
    std::int64_t total;  // running total up to and including this entry
    friend bool operator==(const entry&, const entry&) = default;
  };

  class state {
   public:
    bool empty() const noexcept { return first_ == entries_.size(); }

   private:
    friend class sliding_log;
    std::vector<entry> entries_;
    std::size_t first_ = 0;  // entries before it have been dropped
    std::int64_t base_ = 0;  // the running total before entries_[first_]
  };

  /// What the script says of a log, enough to answer its checks one by one.
  struct summary {
    units sum = 0;  // before the checks
    instant newest = 0;
    units sum_after = 0;    // after them
    instant passes_at = 0;  // when the first refused one would pass; 0 if none was
  };

  /// The policy has been validated.
  explicit sliding_log(const weir::sliding_log& policy) noexcept;

  units ceiling() const noexcept { return std::min(limit_, max_units); }
  units limit() const noexcept { return limit_for_caller(limit_); }

  decision record(state& s, instant now, units cost) const;
  decision fetch(const state& s, instant now, units cost) const;
  instant matters_until(const state& s) const noexcept {
    return s.empty() ? 0 : s.entries_.back().time + window_;
  }

  // Its other half is sliding_log.lua.
  static constexpr std::size_t script_constants = 5;  // arguments()
  static constexpr std::size_t reply_width = 4;
  static constexpr std::string_view key_suffix = "l";
  static std::string_view script() noexcept;
  using replay = summary;
  script_arguments arguments(units cost) const noexcept;
  // A refused check that counts moves the time at which the next one would pass: each needs a look of its own.
  bool coalesces() const noexcept { return !count_refused_; }
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;
  decision record(replay& r, instant now, units cost) const noexcept;
  decision fetch(const replay& r, instant now, units cost) const noexcept;

 private:
  instant time_at(instant newest, instant now) const noexcept;
  instant entry_time(instant at) const noexcept;
  bool is_far_ahead(const state& s, instant now) const noexcept;
  state moved_to(const state& s, instant now) const;
  std::size_t first_alive(const state& s, instant at) const noexcept;
  void append(state& s, instant at, units cost) const;
  void drop_before(state& s, std::size_t first) const;
  instant passes_at(const state& s, std::size_t first, std::int64_t base, units need) const noexcept;
  decision describe(instant at, units sum, instant newest, instant passes,
                    bool allowed) const noexcept;

  span window_;
  units limit_;
  span resolution_;
  bool count_refused_;
};

}  // namespace weir::policies
