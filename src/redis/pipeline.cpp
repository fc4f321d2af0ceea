#include "redis/pipeline.hpp"

#include <boost/asio/error.hpp>
#include <utility>

#include "check/detached_check.hpp"
#include "check/pending.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

}  // namespace

void pipeline::finish(check& c) {
  flight_of(c).line.unlink();
  detail::deadline_wheel::remove(c);
  flight_of(c).stage = check_stage::done;
  pending_ -= weight_of(c);
  done_.push_back(c);
}

void pipeline::finish(check& c, error e) {
  c.ec = e;
  finish(c);
}

void pipeline::finish_all(check_list& list, error e) {
  for (check& c : list) c.ec = e;
  finish_all(list);
}

inline void pipeline::enqueue(check& c) {
  if (!options_.in_cluster) flight_of(c).order = next_order_++;
  flight_of(c).stage = check_stage::waiting;
  (is_urgent(c) ? urgent_ : waiting_).push_back(c);
  wheel_.add(c);
}

void pipeline::resume(check_list&& checks) {
  while (!checks.empty()) {
    check& c = checks.front();
    checks.pop_front();
    pending_ += weight_of(c);
    flight_of(c).came_back = 0;  // not to this line
    enqueue(c);
    const bool is_last = closed_ && !ended_ && detail::gives_back(c);
    if (refusal_ != error{} && !is_last) finish(c, refusal_);
  }
  if (!may_send_ && window_.room(full_write()) > 0) may_send_ = true;
}

/// Gives a check up to the cluster.
void pipeline::release(check& c) noexcept {
  flight_of(c).line.unlink();
  detail::deadline_wheel::remove(c);
  pending_ -= weight_of(c);
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

void pipeline::submit(check& c, time now) {
  const std::size_t before = pending_, weight = weight_of(c);
  pending_ += weight;
  const bool is_refused = refusal_ != error{} && !(closed_ && !ended_ && detail::gives_back(c));
  const error e = is_refused
                      ? refusal_
                      : detail::no_room_for(c, weight, before, options_.max_pending, breaker_, now);
  if (e != error{}) return finish(c, e);
  flight_of(c).deadline = now + timeout_of(c, options_.timeout);
  enqueue(c);
  if (!may_send_) look_for_room(flight_of(c).deadline, now);
}

/// All waiting checks had to wait for a reply: a new one, with that deadline, may find room.
void pipeline::look_for_room(time deadline, time now) {
  if (window_.room(full_write()) > 0) may_send_ = deadline >= now + window_.expected(pending_);
}

void pipeline::cancel(check& c, detail::cancel_scope scope) {
  if (flight_of(c).stage == check_stage::done) return;
  if (scope == detail::cancel_scope::only_unsent && flight_of(c).stage != check_stage::waiting)
    return;
  c.ec = boost::asio::error::operation_aborted;
  give_up(c);
}

/// Ends a check early. A detached check takes the place of a sent acquire, and gives back what the
/// store may have reserved.
void pipeline::give_up(check& c) {
  if (c.kind == detail::check_kind::acquire && flight_of(c).stage != check_stage::waiting &&
      !flight_of(c).is_detached) {
    check& other = detail::stand_in_for(c);
    flight_of(other).stage = flight_of(c).stage;
    flight_of(other).position = flight_of(c).position;
    flight_of(other).resends = flight_of(c).resends;
    flight_of(c).line.swap_nodes(flight_of(other).line);
    pending_ += weight_of(other);
    if (flight_of(c).stage == check_stage::counted) {  // its answer has come
      other.answer = c.answer;
      as<detail::acquire_request>(other).found = as<detail::acquire_request>(c).found;
      finish(other);
    }
  }
  if (flight_of(c).stage == check_stage::counted) c.answer = {};
  finish(c);
}

void pipeline::expire(time now) {
  wheel_.expire(now, [this, now](check& c) {
    // Not a failure of the store: it has answered other checks since this one came, so it is slow;
    // or the check expired before an idle connection could take it.
    const time since = flight_of(c).deadline - timeout_of(c, options_.timeout);
    const bool never_asked = flight_of(c).stage == check_stage::waiting && calls_.empty() &&
                             !writing_;
    const bool says_nothing = connected_ && (never_asked || last_answer_ >= since);
    if (!says_nothing) breaker_.failed(since, now);
    if (flight_of(c).stage != check_stage::waiting) {
      const bool counted = flight_of(c).stage == check_stage::counted;
      c.ec = counted ? error::not_replicated : error::no_reply;
    } else if (!c.ec) {  // else: the server's reason for not running it
      c.ec = suspicion_ != error{} ? suspicion_ : error::timed_out;
    }
    give_up(c);
  });
  if (now >= held_until_) held_until_ = time::max();
}

void pipeline::connected(const script_set& known, std::chrono::microseconds round_trip) {
  connected_ = true;
  suspicion_ = {};
  if (!closed_) refusal_ = {};
  known_scripts_ = known;
  load_failure_ = {};
  no_loads_before_ = time::min();
  wanted_ &= wants_map;
  blocked_ &= redirects;
  served_ = false;
  held_until_ = time::max();
  breaker_.succeeded();
  window_.reset(round_trip);
  may_send_ = true;
}

void pipeline::refused(error reason) {
  refusal_ = closed_ ? error::store_closed : reason;
  finish_all(urgent_, reason);
  finish_all(again_, reason);
  finish_all(waiting_, reason);
  finish_all(passed_over_, reason);
  for (redirected_checks& r : redirected_) finish_all(r.checks, reason);
}

void pipeline::disconnected(error reason, std::size_t sent, time now) {
  connected_ = false;
  while (!calls_.empty()) {
    script_call& c = calls_.front();
    const bool in_write = calls_.size() <= staged_;
    if (in_write && c.end > sent) {
      // The server cannot have got all of the call, so it cannot have run it.
      requeue(c);
    } else {
      for (call_key& key : c.keys) {
        while (!key.checks.empty()) {
          breaker_.failed(now, now);
          finish(key.checks.front(), reason);
        }
      }
    }
    coalescer_.take_back(calls_);
  }
  for (std::size_t i = counted_.size(); i > 0; --i) breaker_.failed(now, now);
  fail_counted(reason);
  staged_ = 0;
  writing_ = false;
}

void pipeline::close() {
  if (std::exchange(closed_, true)) return;
  refusal_ = error::store_closed;
  finish_all(passed_over_, error::store_closed);
  for (check_list* list : {&urgent_, &again_, &waiting_}) {
    for (auto it = list->begin(); it != list->end();) {
      check& c = *it++;
      if (!detail::gives_back(c)) finish(c, error::store_closed);
    }
  }
  for (redirected_checks& r : redirected_) {
    for (auto it = r.checks.begin(); it != r.checks.end();) {
      check& c = *it++;
      if (!detail::gives_back(c)) finish(c, error::store_closed);
    }
  }
  for (auto it = counted_.begin(); it != counted_.end();) {
    check& c = *it++;
    if (c.kind == detail::check_kind::acquire) continue;
    c.answer = {};
    finish(c, error::outcome_unknown);
  }
  for (script_call& call : calls_) {
    for (call_key& key : call.keys) {
      for (auto it = key.checks.begin(); it != key.checks.end();) {
        check& c = *it++;
        const bool stays = detail::gives_back(c) || c.kind == detail::check_kind::acquire;
        if (!stays) finish(c, error::outcome_unknown);
      }
    }
  }
}

void pipeline::end() {
  close();
  ended_ = true;
  refused(error::store_closed);
  for (script_call& c : calls_) {
    for (call_key& key : c.keys) finish_all(key.checks, error::outcome_unknown);
  }
  fail_counted(error::outcome_unknown);
}

check_list pipeline::take_done() {
  check_list taken;
  taken.swap(done_);
  return taken;
}

check_list pipeline::abandon() {
  end();
  return take_done();
}

}  // namespace weir::redis
