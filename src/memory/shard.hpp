#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::memory {

struct subject_hash {
  using is_transparent = void;
  using is_avalanching = void;  // std::hash of the standard library mixes all bits
  std::size_t operator()(std::string_view key) const noexcept {
    return std::hash<std::string_view>{}(key);
  }
};

/// A bounded map from keys to policy states, with its own lock. What no longer matters is dropped as other keys are
/// checked; what still counts is never forgotten.
class shard {
 public:
  explicit shard(std::size_t max_subjects) : max_(max_subjects) {}

  /// error::store_full, and no answer, if the key is new and there is no room.
  error_code record(const policies::kernel& kernel, std::string_view key, policies::instant now,
                    policies::units cost, decision& answer) {
    const std::lock_guard lock(mutex_);
    auto found = subjects_.find(key);
    if (found == subjects_.end()) {
      if (subjects_.size() >= max_ && !make_room(now)) return error::store_full;
      found = subjects_.try_emplace(std::string(key)).first;
    }
    subject& entry = found->second;
    std::visit(
        [&](const auto& k) {
          using state_type = typename std::decay_t<decltype(k)>::state;
          auto* s = std::get_if<state_type>(&entry.state);
          if (s == nullptr) s = &entry.state.template emplace<state_type>();
          answer = k.record(*s, now, cost);
          entry.matters_until = k.matters_until(*s);
        },
        kernel);
    if (++checks_since_sweep_ > subjects_.size() + 64) sweep(now);
    return {};
  }

  decision fetch(const policies::kernel& kernel, std::string_view key, policies::instant now,
                 policies::units cost) {
    const std::lock_guard lock(mutex_);
    const auto found = subjects_.find(key);
    return std::visit(
        [&](const auto& k) {
          using state_type = typename std::decay_t<decltype(k)>::state;
          const auto* s = found == subjects_.end() ? nullptr
                                                   : std::get_if<state_type>(&found->second.state);
          return k.fetch(s != nullptr ? *s : state_type{}, now, cost);
        },
        kernel);
  }

  void reset(std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = subjects_.find(key);
    if (found != subjects_.end()) subjects_.erase(found);
  }

 private:
  struct subject {
    policies::any_state state;
    policies::instant matters_until = 0;
  };

  /// A sweep looks at every subject, so a full shard allows itself one a millisecond.
  bool make_room(policies::instant now) {
    if (now >= last_sweep_ && now - last_sweep_ < 1000) return false;
    sweep(now);
    return subjects_.size() < max_;
  }

  /// Drops what no longer matters. After as many checks as there are subjects, it costs each check a constant.
  void sweep(policies::instant now) {
    boost::unordered::erase_if(subjects_,
                               [&](const auto& s) { return s.second.matters_until <= now; });
    if (subjects_.size() < subjects_.bucket_count() / 8) subjects_.rehash(0);
    checks_since_sweep_ = 0;
    last_sweep_ = now;
  }

  std::mutex mutex_;
  boost::unordered_flat_map<std::string, subject, subject_hash, std::equal_to<>> subjects_;
  const std::size_t max_;
  std::size_t checks_since_sweep_ = 0;
  policies::instant last_sweep_ = -1000;
};

}  // namespace weir::memory
