#pragma once

#include <string_view>

#include "weir/error.hpp"

namespace weir::redis {

/// What an error reply means to the caller. The text itself never travels further: it can quote
/// keys and arguments.
error classify_error(std::string_view text) noexcept;

/// Whether the server will be well again by itself, so that connecting anew soon makes sense.
bool is_passing(error e) noexcept;

}  // namespace weir::redis
