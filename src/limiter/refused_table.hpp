#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weir/stats.hpp"

namespace weir::detail {

/// The subjects that are refused most, by the algorithm Space-Saving (A. Metwally, D. Agrawal,
/// A. El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT
/// 2005): a new subject takes the place of the one with the fewest refusals, and its count. So a
/// subject with more than 1/most of all refusals is never missing. Thread-safe.
class refused_table {
 public:
  static constexpr std::size_t longest_subject = 128;

  explicit refused_table(std::size_t most) : most_(most) {}

  void add(std::string_view subject) noexcept try {
    subject = subject.substr(0, longest_subject);
    const std::lock_guard lock(mutex_);
    auto found = places_.find(std::string(subject));
    if (found == places_.end()) {
      const bool is_full = places_.size() >= most_;
      const auto fewest = by_count_.begin();
      const std::uint64_t excess = is_full ? fewest->first : 0;
      const auto added = by_count_.emplace(excess, entry{nullptr, excess});
      try {
        found = places_.emplace(subject, added).first;
      } catch (...) {
        by_count_.erase(added);
        throw;
      }
      added->second.subject = &found->first;
      if (is_full) drop(fewest);
    }
    auto node = by_count_.extract(found->second);
    ++node.key();
    found->second = by_count_.insert(std::move(node));
  } catch (const std::bad_alloc&) {  // this refusal is not counted
  }

  /// The most refused first.
  std::vector<refused_subject> read() const {
    std::vector<refused_subject> all;
    const std::lock_guard lock(mutex_);
    all.reserve(places_.size());
    for (auto it = by_count_.rbegin(); it != by_count_.rend(); ++it) {
      all.push_back({*it->second.subject, it->first, it->second.excess});
    }
    return all;
  }

 private:
  struct entry {
    const std::string* subject = nullptr;  // its key in places_
    std::uint64_t excess = 0;
  };
  using order = std::multimap<std::uint64_t, entry>;

  void drop(order::iterator fewest) noexcept {
    places_.erase(*fewest->second.subject);
    by_count_.erase(fewest);
  }

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, order::iterator> places_;
  order by_count_;
};

}  // namespace weir::detail
