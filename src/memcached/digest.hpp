#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weir::memcached {

/// Both throw boost::system::system_error with error::invalid_options if the system's OpenSSL does
/// not offer the digest.
std::array<std::uint8_t, 16> md5(std::string_view text);
std::array<std::uint8_t, 32> sha256(std::string_view text);

}  // namespace weir::memcached
