#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/hash.hpp"
#include "weir/detail/check.hpp"

namespace weir::waiting {

/// The ends of cool-downs, as far as this process knows them, by a hash of resource and subject.
/// Not thread-safe.
class known_cool_downs {
 public:
  using time = detail::check::steady_time;

  std::uint64_t key_of(std::uint64_t resource_id, std::string_view subject) const noexcept {
    return hash_(subject) ^ resource_id;
  }

  /// The end of the key's cool-down; time{} if none is known.
  time until(std::uint64_t key) const {
    const auto found = ends_.find(key);
    return found == ends_.end() ? time{} : found->second;
  }

  /// True if the cool-down was unknown, or ends later than known by more than `same_end`. False if
  /// it is not kept, because there are too many.
  bool note(std::uint64_t key, time until, time now, std::chrono::microseconds same_end) {
    if (const auto known = ends_.find(key); known != ends_.end()) {
      const bool is_later = until > known->second + same_end;
      known->second = std::max(known->second, until);
      return is_later;
    }
    if (ends_.size() >= most) sweep(now);
    return ends_.size() < most && ends_.emplace(key, until).second;
  }

  void forget(std::uint64_t key) { ends_.erase(key); }

 private:
  static constexpr std::size_t most = 10'000;

  /// Drops cool-downs that have ended; at most once a second, because it scans all of them.
  void sweep(time now) {
    if (now < next_sweep_) return;
    next_sweep_ = now + std::chrono::seconds{1};
    boost::unordered::erase_if(ends_, [now](const auto& p) { return p.second <= now; });
  }

  const detail::key_hash hash_;
  boost::unordered_flat_map<std::uint64_t, time> ends_;
  time next_sweep_{};
};

}  // namespace weir::waiting
