#pragma once

#include <string_view>

#include "weir/redis_options.hpp"

namespace weir::redis {

/// The contents of a store URL.
struct store_url {
  enum class kind { memory, redis, cluster, sentinel, unix_socket } kind;
  redis_options redis;  ///< defaults for memory
};

/// Reads a URL as documented at open_store(). Throws boost::system::system_error with
/// error::invalid_url or error::unsupported_scheme.
///
/// The text of the exception holds no part of the URL: if the URL does not parse, any part may
/// belong to a password with an unescaped '@', '/', '?' or '#'.
store_url parse_store_url(std::string_view text);

}  // namespace weir::redis
