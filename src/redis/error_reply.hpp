#pragma once

#include <string_view>

#include "weir/error.hpp"

namespace weir::redis {

/// The error for an error reply. The text itself is not passed on, because it can quote keys and
/// arguments.
error classify_error(std::string_view text) noexcept;

/// True if the server's state will pass by itself, so that reconnecting soon makes sense.
bool is_passing(error e) noexcept;

}  // namespace weir::redis
