#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/shard.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

/// A decision without counting. A refusal's retry_after is a second: by then, the store may answer
/// again.
decision without_store(bool allowed);

/// One process's share of a policy: limit, capacity, burst and rate divided by `processes`, at
/// least one unit each.
weir::policy share_of(const weir::policy& policy, std::int64_t processes);

/// Counts a limiter's policy in this process, at this process's share, while the store fails.
class local_fallback {
 public:
  local_fallback(const weir::tiers& tiers, const limiter_options& options);

  decision record(std::string_view subject, std::int64_t cost);
  decision fetch(std::string_view subject, std::int64_t cost);
  decision acquire(std::string_view subject, std::int64_t cost, std::chrono::microseconds max_wait);

  /// For a joint check that this limiter refuses: refuses it as record() does, but counts nothing,
  /// even if the request would fit by now.
  void note_refusal(std::string_view subject, std::int64_t cost);

 private:
  std::vector<memory::shard::tier_key> keys_of(std::string_view subject, std::int64_t cost) const;
  template <class F>
  decision answer(std::int64_t cost, F&& ask) const;
  memory::shard& own() noexcept { return subjects_.of(0); }

  std::vector<policies::kernel> tiers_;
  policies::units ceiling_ = max_units;
  memory::shard_set subjects_;
};

}  // namespace weir::detail
