#pragma once

#include <string>

#include "weir/redis_options.hpp"

namespace weir::detail {

/// What is wrong with the options, in words that hold none of their values; empty if nothing is.
/// Looks at no file.
std::string fault_of(const redis_options& options);

}  // namespace weir::detail
