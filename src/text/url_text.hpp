#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/error.hpp"

namespace weir::text {

/// Throws boost::system::system_error with `code`, and with `what` behind "store URL: ".
[[noreturn]] void fail_url(error code, const std::string& what);

/// A port and the value of a store URL's `timeout`. They throw as fail_url() does, with
/// error::invalid_url.
std::uint16_t read_port(std::string_view text);
std::chrono::microseconds read_timeout(std::string_view text);

/// Takes the zone off an IPv6 address that stands in brackets, and returns it as "%eth0"; empty if
/// there is none. The URL has "%25eth0" (RFC 6874), or "%eth0" as most programs write it. Throws in
/// the same way.
std::string take_zone(std::string_view& address);

}  // namespace weir::text
