#include "redis/pipeline.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "check/detached_check.hpp"
#include "redis/error_reply.hpp"
#include "redis/pending.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

constexpr std::uint8_t max_resends = 2;
constexpr std::chrono::milliseconds hold{25};
constexpr std::chrono::seconds load_pause{1};  // after the server refused to load a script
constexpr std::size_t large_buffer = 1024 * 1024;
const std::string nothing;

/// True if `a` was submitted before `b`; of checks in different slots of a cluster, either may come
/// first.
bool came_before(const check& a, const check& b) noexcept {
  constexpr std::uint16_t slot = 0x3fff;
  const auto& x = flight_of(a);
  const auto& y = flight_of(b);
  if ((x.route & slot) != (y.route & slot)) return (x.route & slot) < (y.route & slot);
  // The ranks may have come around.
  return static_cast<std::int32_t>(x.order - y.order) < 0;
}

}  // namespace

void pipeline::finish(check& c) {
  flight_of(c).line.unlink();
  detail::deadline_wheel::remove(c);
  flight_of(c).stage = check_stage::done;
  pending_ -= weight_of(c);
  done_.push_back(c);
}

/// Ends all checks of a list that hold their answers or errors.
inline void pipeline::finish_all(check_list& list) {
  for (check& c : list) {
    detail::deadline_wheel::remove(c);
    flight_of(c).stage = check_stage::done;
    pending_ -= weight_of(c);
  }
  done_.splice(done_.end(), list);
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

void pipeline::resume(check_list&& checks, time now) {
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
  static_cast<void>(now);
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
  const std::size_t before = pending_;
  pending_ += weight_of(c);
  if (refusal_ != error{}) {
    const bool is_last = closed_ && !ended_ && detail::gives_back(c);
    if (!is_last) return finish(c, refusal_);
  }
  // A single check of any weight may wait. Give-backs are bounded by the booked reservations.
  const bool fits = before == 0 || pending_ <= options_.max_pending || is_urgent(c) ||
                    detail::gives_back(c);
  // With an open circuit, the failing store is the reason for too many pending checks.
  if (!fits) return finish(c, breaker_.is_open() ? error::circuit_open : error::overloaded);
  // A give-back has no caller and may wait for the next connection.
  if (!flight_of(c).unwanted && !breaker_.lets_through(now)) return finish(c, error::circuit_open);
  flight_of(c).deadline = now + timeout_of(c, options_.timeout);
  enqueue(c);
  if (!may_send_ && window_.room(full_write()) > 0) {
    may_send_ = flight_of(c).deadline >= now + window_.expected(pending_);
  }
}

void pipeline::cancel(check& c, detail::cancel_scope scope) {
  if (flight_of(c).stage == check_stage::done) return;
  if (scope == detail::cancel_scope::only_unsent && flight_of(c).stage != check_stage::waiting)
    return;
  c.ec = boost::asio::error::operation_aborted;
  give_up(c);
}

/// Ends a check early. A detached check takes the place of a sent acquire, and gives back what the
/// store may have booked.
void pipeline::give_up(check& c) {
  if (c.kind == detail::check_kind::acquire && flight_of(c).stage != check_stage::waiting &&
      !flight_of(c).unwanted) {
    check& other = detail::stand_in_for(c);
    flight_of(other).stage = flight_of(c).stage;
    flight_of(other).position = flight_of(c).position;
    flight_of(other).resends = flight_of(c).resends;
    flight_of(c).line.swap_nodes(flight_of(other).line);
    pending_ += weight_of(other);
  }
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
      c.ec = error::no_reply;
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
  staged_ = 0;
  writing_ = false;
}

/// Makes the call's checks wait, as far as they still have to be sent.
void pipeline::put_back(script_call& c) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) {
      check& waiting = *it++;
      flight_of(waiting).stage = check_stage::waiting;
      flight_of(waiting).came_back = 1;
      const bool is_stand_in = flight_of(waiting).unwanted &&
                               waiting.kind == detail::check_kind::acquire;
      if (is_stand_in) {
        finish(waiting);  // nothing was booked, so nothing has to be given back
      } else if (closed_ && !detail::gives_back(waiting)) {
        finish(waiting, error::store_closed);
      }
    }
  }
}

/// Puts the call's checks in front of all checks that were never sent. Those that came back stand
/// in the order of their submission: one may come back for the second time when a later one of its
/// key has come back, and waits.
void pipeline::requeue(script_call& c) {
  put_back(c);
  if (options_.in_cluster) blocked_ |= redirects;
  check_list back;
  // Those that came back before a write without room for them stand in waiting_.
  while (!waiting_.empty() && flight_of(waiting_.front()).came_back != 0) {
    back.splice(back.end(), waiting_, waiting_.begin());
  }
  again_.merge(back, came_before);
  for (call_key& key : c.keys) {
    // A renewal may follow the leave of its lease: it then finds the lease gone, which is right.
    const bool urgent = !key.checks.empty() && is_urgent(key.checks.front());
    (urgent ? urgent_ : back).splice((urgent ? urgent_ : back).end(), key.checks);
  }
  back.sort(came_before);
  again_.merge(back, came_before);
}

/// Gives the call's checks to the cluster if the node wants that. False if it answers otherwise.
bool pipeline::redirect(script_call& c, const reply_view& reply, error e) {
  if (c.what != script_call::command::request || !reply.is_error()) return false;
  redirection why = read_redirection(reply.root().text);
  if (why.what == redirection::kind::none) return false;
  error_code reason;
  if (why.what == redirection::kind::try_again) reason = error::slot_migrating;
  if (why.what == redirection::kind::down) {
    reason = e == error::server_is_cluster ? error::cluster_down : e;
  }
  for (call_key& key : c.keys) {
    for (check& waiting : key.checks) {
      waiting.ec = reason;
    }
  }
  put_back(c);
  blocked_ |= redirects;
  redirected_checks& all = redirected_.emplace_back(redirected_checks{std::move(why), {}});
  for (call_key& key : c.keys) all.checks.splice(all.checks.end(), key.checks);
  return true;
}

/// Stages a command of the connection itself.
void pipeline::stage_own(script_call::command what, time now) {
  using enum script_call::command;
  if (what == ping) write_ping(out_);
  if (what == slots) write_cluster_slots(out_);
  if (what == asking) write_asking(out_);
  script_call& c = calls_.emplace_back();
  c.what = what;
  c.sent = now;
  c.end = out_.size();
  ++staged_;
}

/// Stages the load of a script right before the call that needs it, in the same write, so that no
/// check is overtaken.
void pipeline::stage_load(std::size_t script, time now) {
  if (known_scripts_[script] || now < no_loads_before_) return;
  write_load(out_, script);
  script_call load;
  load.what = script_call::command::load;
  load.sent = now;
  load.end = out_.size();
  calls_.push_back(std::move(load));
  ++staged_;
  ++loads_[script];
  known_scripts_.set(script);
}

void pipeline::stage(script_call& c, time now) {
  if (!c.is_request(detail::check_kind::reset)) {
    stage_load(c.script(), now);
    c.loads = loads_[c.script()];
  }
  if (c.asks) stage_own(script_call::command::asking, now);
  write_call(out_, c, scratch_);
  c.end = out_.size();
  c.sent = now;
  c.sent_alone = window_.sent(c.weight(), now);
  for (call_key& key : c.keys) {
    for (check& waiting : key.checks) {
      flight_of(waiting).stage = check_stage::staged;
      flight_of(waiting).sent = now;
      waiting.ec = {};
    }
  }
  ++staged_;
}

const std::string& pipeline::next_write(time now) {
  if (!wants_write()) return nothing;
  out_.clear();
  if (out_.capacity() > large_buffer)
    std::string().swap(out_);  // a large burst must not keep its memory for ever
  if (wanted_ != 0) {
    if ((wanted_ & wants_ping) != 0) stage_own(script_call::command::ping, now);
    if ((wanted_ & wants_map) != 0) stage_own(script_call::command::slots, now);
    wanted_ = 0;
  }
  if (!held()) {
    call_list& packed = pack(now);
    while (!packed.empty()) {
      stage(packed.front(), now);
      calls_.splice(calls_.end(), packed, packed.begin());
    }
    waiting_.swap(again_);  // checks that come back before the next write go first in it
    // With no call in flight, no reply will come that could set this later.
    may_send_ = window_.is_idle() || (!out_.empty() && window_.room(full_write()) > 0);
  }
  writing_ = !out_.empty();
  return out_;
}

/// The calls of the next write; none if all waiting checks have to wait for a reply.
call_list& pipeline::pack(time now) {
  again_.splice(again_.end(), waiting_);
  // A closing connection sends all give-backs.
  const coalescer::quota q{.keys = window_.room(full_write()),
                           .reachable = closed_ ? time::min() : now + window_.expected(pending_)};
  call_list& calls = coalescer_.pack(urgent_, again_, q, passed_over_);
  if (!calls.empty() || !window_.is_idle()) return calls;
  // No reply is due that could show whether the server is still as slow: one check is sent anyway.
  return coalescer_.pack(urgent_, again_, {.keys = 1}, passed_over_);
}

void pipeline::write_done() {
  auto it = calls_.rbegin();
  for (std::size_t i = 0; i < staged_; ++i, ++it) {
    for (call_key& key : it->keys) {
      for (check& waiting : key.checks) flight_of(waiting).stage = check_stage::written;
    }
  }
  staged_ = 0;
  writing_ = false;
}

/// Makes the call's checks wait again, unless they were sent too often.
void pipeline::send_again(script_call& c) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) {
      check& waiting = *it++;
      if (++flight_of(waiting).resends > max_resends) finish(waiting, error::script_missing);
    }
  }
  requeue(c);
}

/// Handles the reply to a load. After a failure, the next load waits for load_pause, because each
/// one has some kilobytes.
void pipeline::loaded(error e, time now) {
  if (is_passing(e)) return;
  load_failure_ = e;
  if (e != error{}) no_loads_before_ = now + load_pause;
}

/// Notes an answer, which may be an error, and closes the circuit if it came within the store's own
/// timeout. The check's own deadline does not matter for that.
void pipeline::heard(const script_call& c, time now) {
  if (!c.keys.empty()) window_.answered(c.weight(), c.sent, c.sent_alone, now);
  may_send_ = true;
  if (now - c.sent > options_.timeout) return;
  last_answer_ = now;
  breaker_.succeeded();
}

/// Answers the call's checks. False if this cannot be the reply to the call: then no later reply
/// can be matched to its call either.
bool pipeline::answer(script_call& c, const reply_view& reply, time now) {
  heard(c, now);
  error e = read_reply(c, reply, numbers_);
  if (c.what == script_call::command::load) {
    loaded(e, now);
    return true;
  }
  if (c.what == script_call::command::slots) {
    map_.emplace(map_answer{reply.is_error() ? nullptr : read_slot_map(reply, options_.host), e});
    return true;
  }
  if (e != error{} && options_.in_cluster && redirect(c, reply, e)) return true;
  switch (e) {
    case error::script_missing:
      // Not if the script was loaded again after this call was sent.
      if (c.loads == loads_[c.script()]) known_scripts_.reset(c.script());
      if (load_failure_ != error{}) {
        e = load_failure_;
        break;
      }
      send_again(c);
      return true;
    case error::read_only:
    case error::server_loading:
    case error::server_busy:
      // The script did not run. The checks wait, within their deadlines, for the next connection or
      // for a pause on this one.
      if (e == error::read_only) {
        blocked_ |= unwelcome;
      } else {
        held_until_ = now + hold;
      }
      for (call_key& key : c.keys) {
        for (check& waiting : key.checks) waiting.ec = e;
      }
      requeue(c);
      return true;
    case error::authentication_failed:
      blocked_ |= unwelcome;
      break;
    default:
      break;
  }
  if (e == error{} && c.what == script_call::command::request) served_ = true;
  for (call_key& key : c.keys) {
    if (e != error{}) {
      finish_all(key.checks, e);
    } else {
      finish_all(key.checks);
    }
  }
  return e != error::protocol_error;
}

pipeline::stream_state pipeline::consume(reply_reader& reader, time now) {
  error_code ec;
  while (const reply_view* reply = reader.next(ec)) {
    if (reply->is_push()) continue;
    if (calls_.empty()) return stream_state::broken;  // no reply is due
    const bool fits = answer(calls_.front(), *reply, now);
    coalescer_.take_back(calls_);
    // Replies may come before the write is reported done.
    if (staged_ > calls_.size()) staged_ = calls_.size();
    if (!fits) return stream_state::broken;
  }
  if (ec) return stream_state::broken;
  return (blocked_ & unwelcome) != 0 && calls_.empty() ? stream_state::unwelcome
                                                       : stream_state::good;
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
