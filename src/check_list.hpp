#pragma once

#include <boost/intrusive/list.hpp>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Checks in line. A check leaves its list by itself when it is unlinked or destroyed.
using check_list = boost::intrusive::list<
    check, boost::intrusive::member_hook<check, check::hook, &check::line>,
    boost::intrusive::constant_time_size<false>>;

}  // namespace weir::detail
