#pragma once

#include <initializer_list>
#include <string>

namespace weir::test {

/// The path of a server's program: that which the environment variable names, else the first of
/// `names` that there is. A name without a '/' is looked for in PATH. Throws std::runtime_error if
/// there is none: a missing server is a failure, not a reason to skip.
std::string server_program(const char* variable, std::initializer_list<const char*> names);

}  // namespace weir::test
