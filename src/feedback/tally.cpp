#include "feedback/tally.hpp"

#include <limits>
#include <tuple>

namespace weir::feedback {
namespace {

/// True if `a` has less left or, with equal remaining units, resets later. The other fields break
/// ties, so that the order of headers does not matter.
bool tighter(const vendor_quota& a, const vendor_quota& b) noexcept {
  const auto rank = [](const vendor_quota& window) {
    constexpr std::chrono::microseconds unknown{-1};
    return std::tuple{*window.remaining, -window.reset_after.value_or(unknown).count(),
                      window.limit.value_or(std::numeric_limits<std::int64_t>::max()),
                      window.source};
  };
  return rank(a) < rank(b);
}

}  // namespace

void quota_tally::add(const vendor_quota& window, bool blocks) noexcept {
  if (window.remaining) {
    if (!tightest_.remaining || tighter(window, tightest_)) {
      tightest_ = window;
      tightest_blocks_ = blocks;
    }
    if (blocks && *window.remaining == 0 && window.reset_after) {
      empty_for_.add(*window.reset_after, window.source);
    }
    return;
  }
  if (!window.limit && !window.reset_after) return;
  keep_lowest(partial_.limit, window.limit);
  keep_highest(partial_.reset_after, window.reset_after);
  if (partial_.source == feedback_source::none || window.source < partial_.source) {
    partial_.source = window.source;
  }
}

longest_wait quota_tally::empty_for() const noexcept {
  longest_wait wait = empty_for_;
  // The reset and the zero may come from different headers.
  const vendor_quota all = result();
  if (tightest_blocks_ && all.remaining == 0 && all.reset_after) {
    wait.add(*all.reset_after, all.source);
  }
  return wait;
}

vendor_quota quota_tally::result() const noexcept {
  if (!tightest_.remaining) return partial_;
  vendor_quota out = tightest_;
  if (!out.limit) out.limit = partial_.limit;
  if (!out.reset_after) out.reset_after = partial_.reset_after;
  return out;
}

}  // namespace weir::feedback
