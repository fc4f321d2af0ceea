#pragma once

#include <string>

#include "weir/redis_options.hpp"

namespace weir::redis {

/// The error text for invalid options, without any of their values; empty if they are valid. Reads
/// no file.
std::string fault_of(const redis_options& options);

}  // namespace weir::redis
