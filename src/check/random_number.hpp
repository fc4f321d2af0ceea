#pragma once

#include <cstdint>

namespace weir::detail {

/// 64 random bits: other ones in every thread, and in every process, also in one that was forked.
std::uint64_t random_number();

/// 0 in the process that loaded the library. In a child of fork() it is a random number of the
/// child's own: what both processes count on from the same value becomes different when this is
/// added.
std::uint64_t fork_salt() noexcept;

}  // namespace weir::detail
