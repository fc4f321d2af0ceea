#pragma once

#include <cstdint>

namespace weir::detail {

/// 64 random bits, different in every thread and every process, also after fork().
std::uint64_t random_number();

/// 0 in the process that loaded the library, a random number in each child of fork(). Adding it to
/// a counter that both processes inherited makes their values differ.
std::uint64_t fork_salt() noexcept;

}  // namespace weir::detail
