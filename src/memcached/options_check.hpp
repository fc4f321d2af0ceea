#pragma once

#include <string>

#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// The error text for invalid options, without any of their values; empty if they are valid.
std::string fault_of(const memcached_options& options);

}  // namespace weir::memcached
