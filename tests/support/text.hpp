#pragma once

#include <string>

#include "weir/policy.hpp"

namespace weir::test {

/// For messages.
std::string text_of(const decision& d);
std::string text_of(const policy& p);

}  // namespace weir::test
