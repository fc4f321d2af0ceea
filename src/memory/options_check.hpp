#pragma once

#include <string>

#include "weir/memory_store.hpp"

namespace weir::memory {

/// The error text for invalid options; empty if they are valid.
std::string fault_of(const memory_options& options);

}  // namespace weir::memory
