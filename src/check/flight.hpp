#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/hash.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// The hash of the check's own subject, computed when it is first asked for.
inline std::uint64_t subject_hash(const check& c) noexcept {
  const in_flight& f = c.flight;
  if (f.subject_hash == 0) f.subject_hash = subject_hash(c.subject.view());
  return f.subject_hash;
}

/// Prepares a finished check to be started again.
inline void make_idle(check& c) noexcept {
  in_flight& f = c.flight;
  f.stage = check_stage::idle;
  f.resends = 0;
  f.was_put_off = f.came_back = f.left_stand_in = false;
  c.route = {};
  c.ec = {};
}

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
