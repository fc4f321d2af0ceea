#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.hpp"
#include "memory/keyed_entry.hpp"
#include "memory/subject_state.hpp"

namespace weir::memory {

inline std::uint32_t hash_of(std::string_view key) noexcept {
  static const detail::key_hash hash;
  return static_cast<std::uint32_t>(hash(key));
}

/// A key and its state, in one cache line.
struct subject : keyed_entry<subject_state> {
  /// Keeps the state for a grace period, because the clock may step back.
  bool is_over(policies::instant now) const noexcept {
    return state.matters_until() + policies::grace <= now;
  }
};

static_assert(sizeof(subject) == 64);

}  // namespace weir::memory
