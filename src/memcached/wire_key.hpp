#pragma once

#include <string>
#include <string_view>

namespace weir::memcached {

/// The longest key of memcached.
inline constexpr std::size_t max_key_size = 250;

/// The key under which memcached keeps a subject. It is weir's own key, `prefix:{resource:subject}`
/// or `prefix:{group}:resource:subject`, if that has at most 250 bytes, all of them printable ASCII
/// and none a space. Any other key becomes `prefix:sha256:` and the SHA-256 of the whole key in 64
/// hex digits; the prefix is left out if it is not fit for a key itself. The result has no brace,
/// so it differs from all keys of the first kind.
std::string wire_key(std::string_view key);

}  // namespace weir::memcached
