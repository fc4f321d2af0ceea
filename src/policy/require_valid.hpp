#pragma once

#include <boost/system/system_error.hpp>
#include <string>

#include "weir/error.hpp"

namespace weir::policies {

/// Throws boost::system::system_error with error::invalid_policy and the text, unless `holds`.
inline void require_valid(bool holds, const std::string& text) {
  if (!holds) throw boost::system::system_error(make_error_code(error::invalid_policy), text);
}

}  // namespace weir::policies
