#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "base/hash.hpp"
#include "base/light_mutex.hpp"
#include "weir/decision.hpp"

namespace weir::detail {

/// The subjects of a limiter whose cool-downs this process has met. Of each, it tells once which
/// end is new, for events; and the first call that the vendor serves afterwards is to tell the
/// store, which then begins again with its guesses. Knows 10,000 subjects. One more, and it drops
/// those whose cool-downs are over, or all of them. Thread-safe.
class met_cool_downs {
 public:
  using steady_time = std::chrono::steady_clock::time_point;

  /// Notes a cool-down with this end by the store's clock; `left` is the time until then. True if
  /// the end is news: later by 100 ms than what was told, so that a cool-down that is prolonged all
  /// the time is told ten times a second at most.
  /// Also false without memory: then the subject is not known.
  bool note(std::string_view subject, time_point until, std::chrono::microseconds left,
            steady_time now) noexcept try {
    const std::lock_guard lock(mutex_);
    if (subjects_.size() >= most) make_room(now);
    known& k = subjects_[hash_(subject)];
    k.ends = std::max(k.ends, now + left);
    if (until < k.told + std::chrono::milliseconds{100}) return false;
    k.told = until;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  /// The next served call is to tell the store.
  void await_service(std::string_view subject) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = subjects_.find(hash_(subject));
    if (found != subjects_.end()) found->second.awaits_service = true;
  }
  /// True if a served call of the subject is to tell the store; then the next one is not.
  bool take(std::string_view subject) noexcept {
    const std::lock_guard lock(mutex_);
    if (subjects_.empty()) return false;
    const auto found = subjects_.find(hash_(subject));
    return found != subjects_.end() && std::exchange(found->second.awaits_service, false);
  }

  /// After a reset.
  void forget(std::string_view subject) noexcept {
    const std::lock_guard lock(mutex_);
    subjects_.erase(hash_(subject));
  }
  /// How many have not ended.
  std::size_t running(steady_time now) const noexcept {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(subjects_, [now](const auto& one) { return one.second.ends > now; }));
  }

 private:
  static constexpr std::size_t most = 10'000;
  struct known {
    time_point told{};  // the last end that was told, by the store's clock
    steady_time ends{};
    bool awaits_service = false;
  };

  void make_room(steady_time now) {
    boost::unordered::erase_if(subjects_, [now](const auto& one) {
      return one.second.ends <= now && !one.second.awaits_service;
    });
    if (subjects_.size() >= most) subjects_.clear();
  }

  const key_hash hash_;
  mutable light_mutex mutex_;
  boost::unordered_flat_map<std::uint64_t, known> subjects_;
};

}  // namespace weir::detail
