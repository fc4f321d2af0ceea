#pragma once

#include <string>

#include "weir/memory_store.hpp"

namespace weir::detail {

/// What is wrong with the options, in words; empty if nothing is.
std::string fault_of(const memory_options& options);

}  // namespace weir::detail
