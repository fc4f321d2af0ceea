#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "check/apply.hpp"
#include "check/flight.hpp"
#include "memcached/subject_value.hpp"

namespace weir::memcached {

/// Runs checks of one subject on its value: one after the other, in order, at one instant.
class check_batch {
 public:
  /// The most checks in one batch. More would keep other subjects waiting.
  static constexpr std::size_t most = 1000;

  enum class verdict : std::uint8_t {
    unchanged,  ///< all of them have their answers, and there is nothing to write
    store,      ///< their answers are right once the new value is stored
    erase,      ///< their answers are right once the item is deleted
  };
  struct result {
    verdict what = verdict::unchanged;
    std::size_t checks = 0;  ///< how many, from the front; each has an answer or an error
    policies::instant ends = 0;
  };

  /// `clocks_differ`: how far the clock of another process may be ahead of the caller's.
  explicit check_batch(policies::span clocks_differ = 0) noexcept : clocks_differ_(clocks_differ) {}

  /// `found`: the item's value, empty if there is no item. `is_oversized`: it was too long to be
  /// read, and this is its first byte. `max_value`: the most bytes of the new one, which is written
  /// into `out`.
  result run(detail::check_list& checks, std::string_view found, bool is_oversized,
             policies::instant now, std::size_t max_value, std::string& out);

 private:
  void run_one(detail::check& c, policies::instant now);
  void run_states(detail::check& c, policies::instant now);
  policies::instant clock_for(std::span<const detail::held_tier> tiers,
                              policies::instant now) const noexcept;

  const policies::span clocks_differ_;
  subject_value value_;
  error unreadable_{};
  bool erases_unread_ = false;
  std::size_t most_settled_ = 0;  // settlements in the value
};

}  // namespace weir::memcached
