#pragma once

#include <string_view>

#include "weir/error.hpp"

namespace weir::redis {

/// The error for an error reply. The text itself is not passed on, because it can quote keys and
/// arguments.
error classify_error(std::string_view text) noexcept;

/// The error code for a call. If the server does not know a command or forbids it, the location of
/// the code names that command, so that what() does, if the reply tells which one it is: by name,
/// or by the line of the script with this text.
error_code name_command(error e, std::string_view reply, std::string_view script = {}) noexcept;

/// True if name_command() has named this command.
bool names_command(const error_code& code, std::string_view command) noexcept;

/// True if the server's state will pass by itself, so that reconnecting soon makes sense.
bool is_passing(error e) noexcept;

}  // namespace weir::redis
