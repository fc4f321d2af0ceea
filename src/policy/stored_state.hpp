#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/kernel.hpp"

namespace weir::policies {

// The states as rows of numbers, for a store that keeps them as bytes. docs/formats.md has
// the rows: a change here is a new format of every such store.

/// Appends the numbers of a state. An empty any_state appends nothing.
void append_numbers(const any_state& state, std::vector<std::int64_t>& out);

/// Makes the kernel's own kind of state from its numbers. False if the numbers are no such state: a
/// foreign value must not reach the arithmetic.
bool read_numbers(const kernel& of, std::span<const std::int64_t> numbers, any_state& out);

}  // namespace weir::policies
