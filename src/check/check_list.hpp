#pragma once

#include <boost/intrusive/list.hpp>

#include "check/in_flight.hpp"

namespace weir::detail {

/// An intrusive list of checks. Unlinking or destroying a check removes it from its list.
using check_list = boost::intrusive::list<
    check, boost::intrusive::member_hook<check, check::hook, &check::line>,
    boost::intrusive::constant_time_size<false>>;

/// Destroys the checks and their handlers; no handler runs. This may run destructors of the user's
/// objects.
inline void discard(check_list&& dropped) {
  while (!dropped.empty()) {
    check& c = dropped.front();
    dropped.pop_front();
    c.finish(delivery::discard);
  }
}

}  // namespace weir::detail
