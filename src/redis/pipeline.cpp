#include "redis/pipeline.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "check/detached_check.hpp"
#include "redis/error_reply.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

constexpr std::uint8_t max_resends = 2;
constexpr std::chrono::milliseconds hold{25};
constexpr std::chrono::seconds load_pause{1};  // after the server refused to load a script
constexpr std::size_t large_buffer = 1024 * 1024;
constexpr std::chrono::hours max_timeout{24};  // far from where time points overflow
const std::string nothing;

/// A check's share of max_pending. It grows with the subjects' lengths, so that the bound holds for
/// memory, too.
std::size_t weight_of(const check& c) noexcept {
  constexpr std::size_t unit = 1024;
  std::size_t bytes = c.subject.view().size();
  for (const detail::term& t : c.further()) bytes += t.subject.view().size();
  return 1 + bytes / unit;
}

/// True for renewals and leaves: behind many other checks, a lease would be lost.
bool is_urgent(const check& c) {
  return c.kind == detail::check_kind::renew || c.kind == detail::check_kind::leave;
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

inline std::chrono::microseconds pipeline::timeout_of(const check& c) const noexcept {
  const auto wanted = c.timeout.count() != 0 ? c.timeout : options_.timeout;
  return std::clamp<std::chrono::microseconds>(wanted, std::chrono::microseconds{0}, max_timeout);
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
  flight_of(c).deadline = now + timeout_of(c);
  flight_of(c).stage = check_stage::waiting;
  (is_urgent(c) ? urgent_ : waiting_).push_back(c);
  wheel_.add(c);
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
    const time since = flight_of(c).deadline - timeout_of(c);
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
  ping_wanted_ = unwelcome_ = served_ = false;
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

/// Puts the call's checks in front of all waiting checks, behind those that came back before.
void pipeline::requeue(script_call& c) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) {
      check& waiting = *it++;
      flight_of(waiting).stage = check_stage::waiting;
      const bool is_stand_in = flight_of(waiting).unwanted &&
                               waiting.kind == detail::check_kind::acquire;
      if (is_stand_in) {
        finish(waiting);  // nothing was booked, so nothing has to be given back
      } else if (closed_ && !detail::gives_back(waiting)) {
        finish(waiting, error::store_closed);
      }
    }
    // A renewal may follow the leave of its lease: it then finds the lease gone, which is right.
    const bool urgent = !key.checks.empty() && is_urgent(key.checks.front());
    if (urgent) urgent_.splice(urgent_.end(), key.checks);
    again_.splice(again_.end(), key.checks);
  }
}

void pipeline::stage_ping(time now) {
  write_ping(out_);
  calls_.emplace_back().sent = now;
  ping_wanted_ = false;
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
  if (ping_wanted_) stage_ping(now);
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
        unwelcome_ = true;
      } else {
        held_until_ = now + hold;
      }
      for (call_key& key : c.keys) {
        for (check& waiting : key.checks) waiting.ec = e;
      }
      requeue(c);
      return true;
    case error::authentication_failed:
      unwelcome_ = true;
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
  return unwelcome_ && calls_.empty() ? stream_state::unwelcome : stream_state::good;
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
