// The pipeline of a node in a Redis Cluster.
#include <utility>

#include "redis/pipeline.hpp"
#include "redis/resp/error_reply.hpp"

namespace weir::redis {

using detail::check;
using detail::check_list;

void pipeline::resume(check_list&& checks, time now) {
  while (!checks.empty()) {
    check& c = checks.front();
    checks.pop_front();
    pending_ += weight_of(c);
    flight_of(c).came_back = 0;  // not to this line
    enqueue(c);
    if (refuses(c)) {
      finish(c, refusal_);
    } else if (!is_paused() && comes_back_too_late(c, now)) {
      passed_over_.splice(passed_over_.end(), waiting_, std::prev(waiting_.end()));
    }
  }
  if (!may_send_ && window_.room(now) > 0) may_send_ = true;
}

void pipeline::take_redirected(std::vector<redirected_checks>& out) {
  for (redirected_checks& r : redirected_) {
    for (check& c : r.checks) {
      detail::deadline_wheel::remove(c);
      pending_ -= weight_of(c);
    }
    out.push_back(std::move(r));
  }
  redirected_.clear();
}

void pipeline::take_unsent(const std::function<bool(const check&)>& elsewhere, check_list& out) {
  for (check_list* list : {&urgent_, &again_, &waiting_}) {
    for (auto it = list->begin(); it != list->end();) {
      check& c = *it++;
      if (!elsewhere(c)) continue;
      release(c);
      out.push_back(c);
    }
  }
  for (auto it = passed_over_.begin(); it != passed_over_.end();) {
    check& c = *it++;
    if (elsewhere(c)) end_late(c);
  }
}

/// Notes the reply to ASKING. A node that does not know it, or forbids it, redirects the call.
void pipeline::note_asking(const reply_view& reply, error e) {
  const bool is_refused = e == error::command_missing || e == error::permission_denied;
  asking_failure_ = is_refused ? name_command(e, reply.root().text) : error_code();
}

/// Makes the call's checks wait in the cluster.
void pipeline::hand_over(script_call& c, redirection&& why) {
  put_back(c);
  blocked_ |= redirects;
  redirected_checks& all = redirected_.emplace_back(redirected_checks{std::move(why), {}});
  for (call_key& key : c.keys) all.checks.splice(all.checks.end(), key.checks);
}

}  // namespace weir::redis
