#pragma once

#include <cstdint>

namespace bench {

/// How often operator new has been called in this program. Linking this in replaces the operator.
std::uint64_t allocations() noexcept;

}  // namespace bench
