#pragma once

#include <string_view>

#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// True if the text has the scheme of Memcached stores.
bool is_memcached_url(std::string_view text) noexcept;

/// Reads a memcached:// or memcached+unix:// URL as documented at open_store(). Throws
/// boost::system::system_error with error::invalid_url. The text of the exception holds no part of
/// the URL.
memcached_options parse_url(std::string_view text);

}  // namespace weir::memcached
