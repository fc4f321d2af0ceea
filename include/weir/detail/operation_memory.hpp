#pragma once

#include <cstddef>
#include <new>

#include "weir/detail/export.hpp"

namespace weir::detail {

// Memory for one operation. A thread keeps the blocks that it frees for its later operations, as
// many as were in use at once and at most 1 MiB of them, so that calls in a steady state allocate
// nothing. Any thread may free a block.
//
// The common case is inline: the size of an operation is a constant there.

/// The first bytes of a block that is kept.
struct kept_block {
  kept_block* next;
};

/// The blocks that one thread keeps. Trivial, so that operations that are freed late, by
/// destructors of other thread-local objects, still find it. Its layout is part of the ABI.
struct kept_blocks {
  // Blocks have sizes in steps of `step`; larger ones are not kept.
  static constexpr std::size_t step = 64;
  static constexpr std::size_t sizes = 33;
  static constexpr std::size_t steps_of(std::size_t bytes) noexcept {
    return (bytes + step - 1) / step;
  }

  kept_block* first[sizes];  // by the number of steps
  // How many bytes may still be kept. None before the thread has freed a block, and after its end.
  std::size_t room;

  /// Null if none of that size is kept.
  void* take(std::size_t steps) noexcept {
    if (steps >= sizes || first[steps] == nullptr) return nullptr;
    kept_block* const b = first[steps];
    first[steps] = b->next;
    room += steps * step;
    return b;
  }
  /// False if it cannot be kept.
  bool keep(void* block, std::size_t steps) noexcept {
    if (steps >= sizes || room < steps * step) return false;
    first[steps] = ::new (block) kept_block{first[steps]};
    room -= steps * step;
    return true;
  }
};

/// This thread's. constinit, so that no use of it asks whether it was made.
WEIR_EXPORT extern constinit thread_local kept_blocks kept;

// The rare cases: the thread keeps no block of that size; a block cannot be kept, or is the first
// one.
WEIR_EXPORT void* allocate_new(std::size_t size);
WEIR_EXPORT void free_or_begin(void* block, std::size_t size) noexcept;

/// Throws std::bad_alloc.
inline void* allocate_operation(std::size_t size) {
  void* const block = kept.take(kept_blocks::steps_of(size));
  return block != nullptr ? block : allocate_new(size);
}
inline void free_operation(void* block, std::size_t size) noexcept {
  if (!kept.keep(block, kept_blocks::steps_of(size))) free_or_begin(block, size);
}

}  // namespace weir::detail
