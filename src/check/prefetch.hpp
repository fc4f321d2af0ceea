#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::detail {

/// Has the processor fetch memory that will soon be read and written. The address need not be
/// valid.
inline void prefetch(std::uintptr_t first, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < bytes; i += line) {
    __builtin_prefetch(reinterpret_cast<const void*>(first + i), 1);
  }
}

template <class T>
void prefetch(const T& object) noexcept {
  prefetch(reinterpret_cast<std::uintptr_t>(&object), sizeof(T));
}

}  // namespace weir::detail
