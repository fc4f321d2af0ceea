#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::detail {

inline constexpr std::size_t cache_line = 64;

/// Prefetches `lines` cache lines from `first` on, for writing. The address need not be valid.
inline void prefetch_lines(std::uintptr_t first, std::size_t lines) noexcept {
  for (std::size_t i = 0; i < lines; ++i) {
    __builtin_prefetch(reinterpret_cast<const void*>(first + i * cache_line), 1);
  }
}

/// Prefetches all cache lines that the object may touch.
template <class T>
void prefetch(const T& object) noexcept {
  constexpr std::size_t lines = (sizeof(T) + cache_line - 2) / cache_line + 1;
  prefetch_lines(reinterpret_cast<std::uintptr_t>(&object), lines);
}

}  // namespace weir::detail
