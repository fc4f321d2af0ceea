#include "redis/pipeline.hpp"

#include <algorithm>
#include <utility>

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

}  // namespace

inline void pipeline::accept(check& c, time now) {
  enqueue(c);
  if (!may_send_) look_for_room(flight_of(c).deadline, now);
}

void pipeline::submit(check& c, time now) {
  if (const error e = admit(c, now); e != error{}) return finish(c, e);
  if (!is_served()) return submit_unserved(c, now);
  accept(c, now);
}

void pipeline::submit_unserved(check& c, time now) {
  if (const error e = why_not_wait(c, now); e != error{}) return finish(c, e);
  accept(c, now);
}

/// All waiting checks have to wait for a reply, but a new one with this deadline may be sent.
void pipeline::look_for_room(time deadline, time now) {
  if (window_.room(now) > 0) may_send_ = deadline >= expected_answer(now);
}

void pipeline::expire(time now, time::duration late) {
  if (stood_still(late)) {
    for (script_call& c : calls_) take_out(c, now, late);
  }
  expire_checks(now, calls_.empty() && !writing_, late);
  if (now >= paused_until_) end_pause(now);
  if (now >= opens_at_) hold(now);
}

void pipeline::connected(const script_set& known, std::chrono::microseconds round_trip) {
  begin_connection();
  known_scripts_ = known;
  text_failure_ = {};
  no_texts_before_ = time::min();
  wanted_ &= wants_map;
  blocked_ &= redirects;
  is_replica_ = served_ = false;
  paused_until_ = opens_at_ = time::max();
  window_.reset(round_trip, options_.first_keys);
  may_send_ = true;
}

void pipeline::refused(error reason) {
  refuse(reason);
  // A closing store waits for no other connection.
  const auto ends = [this](const check& c) { return closed_ || refuses(c); };
  for (check_list* list : {&urgent_, &again_, &waiting_, &passed_over_}) {
    finish_if(*list, reason, ends);
  }
  for (redirected_checks& r : redirected_) finish_if(r.checks, reason, ends);
}

void pipeline::disconnected(error reason, std::size_t sent, time now) {
  connected_ = false;
  opens_at_ = time::max();
  while (!calls_.empty()) {
    script_call& c = calls_.front();
    const bool in_write = calls_.size() <= staged_;
    if (in_write && c.end > sent) {
      // The server cannot have got all of the call, so it cannot have run it.
      requeue(c);
    } else {
      for (call_key& key : c.keys) fail_sent(key.checks, reason, now);
    }
    coalescer_.take_back(calls_);
  }
  staged_ = 0;
  writing_ = false;
}

void pipeline::close() {
  if (!begin_close()) return;
  window_.stop_pausing();
  opens_at_ = time::max();
  may_send_ = true;
  finish_all(passed_over_, error::store_closed);
  for (check_list* list : {&urgent_, &again_, &waiting_}) close_unsent(*list);
  for (redirected_checks& r : redirected_) close_unsent(r.checks);
  for (script_call& call : calls_) {
    for (call_key& key : call.keys) close_sent(key.checks);
  }
}

void pipeline::end() {
  close();
  ended_ = true;
  refused(error::store_closed);
  for (script_call& c : calls_) {
    for (call_key& key : c.keys) finish_all(key.checks, error::outcome_unknown);
  }
}

check_list pipeline::abandon() {
  end();
  return take_done();
}

}  // namespace weir::redis
