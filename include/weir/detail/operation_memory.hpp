#pragma once

#include <cstddef>

namespace weir::detail {

/// Memory for one operation. A thread keeps the blocks that it frees for its later operations, as
/// many as were in use at once and at most 1 MiB of them, so that calls in a steady state allocate
/// nothing. Any thread may free a block. Throws std::bad_alloc.
void* allocate_operation(std::size_t size);
void free_operation(void* block, std::size_t size) noexcept;

}  // namespace weir::detail
