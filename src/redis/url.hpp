#pragma once

#include <string_view>

#include "weir/redis_options.hpp"

namespace weir::detail {

/// What a store URL says.
struct store_url {
  enum class kind { memory, redis, unix_socket } kind;
  redis_options redis;  ///< defaults for memory
};

/// Reads a URL as documented at open_store(). Throws boost::system::system_error with
/// error::invalid_url or error::unsupported_scheme.
///
/// The text of the exception holds no part of the URL: in one that does not parse, any part may be
/// a piece of a password whose '@', '/', '?' or '#' was not escaped.
store_url parse_store_url(std::string_view url);

}  // namespace weir::detail
