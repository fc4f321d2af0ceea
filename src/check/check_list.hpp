#pragma once

#include <boost/intrusive/list.hpp>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Checks in line. A check leaves its list by itself when it is unlinked or destroyed.
using check_list = boost::intrusive::list<
    check, boost::intrusive::member_hook<check, check::hook, &check::line>,
    boost::intrusive::constant_time_size<false>>;

/// Frees them with their handlers, unrun. That may run destructors of the caller's.
inline void discard(check_list&& dropped) {
  while (!dropped.empty()) {
    check& c = dropped.front();
    dropped.pop_front();
    c.finish(delivery::discard);
  }
}

}  // namespace weir::detail
