#include "redis/waiting_checks.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;

/// True if `a` was submitted before `b`.
bool came_before(const check& a, const check& b) noexcept {
  // The ranks may have come around.
  return static_cast<std::int32_t>(a.flight.order - b.flight.order) < 0;
}

/// Merges two lists in that order. Mostly, all of `more` come behind `all`, which may be long.
void merge(check_list& all, check_list& more) {
  if (all.empty() || more.empty() || !came_before(more.front(), all.back())) {
    all.splice(all.end(), more);
  } else {
    all.merge(more, came_before);
  }
}

}  // namespace

/// Puts the call's checks in front of all checks that were never sent. Checks that came back are
/// sorted by their submission, because one may come back a second time while a later one of its key
/// waits.
void waiting_checks::came_back(script_call& c, redirection&& why) {
  if (in_cluster_) {
    held_ = true;
    check_list& all = redirected_.emplace_back(redirected_checks{std::move(why), {}}).checks;
    for (call_key& key : c.keys) all.splice(all.end(), key.checks);
    return;
  }
  check_list back;
  // Checks that came back and found no room in a write.
  while (!line_.empty() && line_.front().flight.came_back) {
    back.splice(back.end(), line_, line_.begin());
  }
  merge(again_, back);
  for (call_key& key : c.keys) {
    for (check& one : key.checks) one.flight.came_back = true;
    // A renewal may follow the leave of its lease: it then finds the lease gone, which is right.
    const bool urgent = !key.checks.empty() && key.checks.front().traits.is_urgent;
    (urgent ? urgent_ : back).splice((urgent ? urgent_ : back).end(), key.checks);
  }
  back.sort(came_before);
  merge(again_, back);
}

}  // namespace weir::redis
