#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// Which of several servers keeps a key: the consistent hashing of libketama, in the weighted form
/// of libmemcached (MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED), which pylibmc, PHP's memcached and others
/// use: MD5 for points and keys, 160 points for each server on average. The points are named
/// "host-i", "host:port-i" if the port is not 11211, or "path:0-i" for a Unix socket.
class ketama {
 public:
  /// Throws as md5() does. At least one server.
  explicit ketama(const std::vector<memcached_server>& servers);

  /// The index of the key's server.
  std::size_t server_of(std::string_view key) const;

 private:
  struct point {
    std::uint32_t value;
    std::uint32_t server;
  };

  std::vector<point> points_;  // by value; empty if there is one server
};

}  // namespace weir::memcached
