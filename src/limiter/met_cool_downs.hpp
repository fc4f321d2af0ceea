#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/hash.hpp"
#include "base/light_mutex.hpp"

namespace weir::detail {

/// The subjects of a limiter whose cool-downs this process has met. The first call of each that the
/// vendor serves is to tell the store, which then begins again with its guesses. Knows 10,000
/// subjects. One more, and it forgets all others: their guesses go on until time ends them.
/// Thread-safe.
class met_cool_downs {
 public:
  void note(std::string_view subject) {
    const std::lock_guard lock(mutex_);
    if (subjects_.size() >= most) subjects_.clear();
    subjects_.insert(hash_(subject));
  }

  /// True if the subject was noted; forgets it.
  bool take(std::string_view subject) {
    const std::lock_guard lock(mutex_);
    return !subjects_.empty() && subjects_.erase(hash_(subject)) > 0;
  }

 private:
  static constexpr std::size_t most = 10'000;

  const key_hash hash_;
  light_mutex mutex_;
  boost::unordered_flat_set<std::uint64_t> subjects_;
};

}  // namespace weir::detail
