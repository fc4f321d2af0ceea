#pragma once

#include <string>

#include "weir/redis_options.hpp"

namespace weir::redis {

/// The error text for invalid options, without any of their values; empty if they are valid. Reads
/// no file.
std::string fault_of(const redis_options& options);

/// The options of a connection to a Sentinel, without host and port.
redis_options link_to_sentinel(const redis_options& options);

}  // namespace weir::redis
