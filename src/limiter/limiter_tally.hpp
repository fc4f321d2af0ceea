#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/light_mutex.hpp"
#include "check/call_tally.hpp"
#include "limiter/refused_table.hpp"
#include "weir/stats.hpp"

namespace weir::detail {

/// What limiter::stats() tells of calls. Thread-safe.
class limiter_tally {
 public:
  /// `most_refused`: see limiter_options. `book`, which the store owns, outlives this.
  limiter_tally(tally_book& book, std::size_t tiers, std::size_t most_refused);
  ~limiter_tally();

  /// Counts calls of this limiter alone, which the store has allowed.
  void add_allowed(std::uint64_t calls) noexcept { calls_.add_allowed(calls); }
  /// Counts any other call, which is about to be delivered.
  void ended(const check& c) noexcept;
  /// Counts a cool-down that was unknown before. `is_own`: this limiter's call began it.
  void cool_down_begun(bool is_own) noexcept;
  void cool_down_clamped() noexcept;
  void lease_lost() noexcept;

  void read(limiter_stats& into) const;

 private:
  void add(const check& c) noexcept;
  static void note_refusal(const check& c) noexcept;
  void refused(std::string_view subject, std::ptrdiff_t tier, bool by_cool_down) noexcept;

  tally_book& book_;
  call_tally calls_;
  std::unique_ptr<refused_table> refused_;  // null: not asked for
  mutable light_mutex mutex_;
  // The mutex guards these:
  std::vector<std::uint64_t> refused_by_tier_;
  std::uint64_t refused_by_cool_down_ = 0, gave_up_ = 0, begun_ = 0, joined_ = 0, clamped_ = 0,
                lost_ = 0;
  std::unique_ptr<duration_histogram> waited_;  // null: nobody has waited
};

}  // namespace weir::detail
