#include "redis/pipeline.hpp"

#include <new>
#include <utility>

#include "redis/refusal.hpp"
#include "redis/resp/error_reply.hpp"
#include "redis/script/reply.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

constexpr std::chrono::milliseconds pause_when_busy{25};
constexpr std::size_t large_buffer = 1024 * 1024;
const std::string nothing;

std::string_view script_text_of(const script_call& c) {
  return c.has_script() ? scripts()[c.script].text : std::string_view();
}

/// Calls f with each check for which `which` is true; f may move it elsewhere.
template <class Predicate, class F>
void for_each_if(check_list& list, Predicate&& which, F&& f) {
  for (auto it = list.begin(); it != list.end();) {
    check& c = *it++;
    if (which(c)) f(c);
  }
}

}  // namespace

// ---- checks that wait

void pipeline::submit(check& c, time now) {
  error e = admit(c, now);
  if (e == error{} && !is_served()) e = why_not_wait(c, now);
  if (e != error{}) return finish(c, e);
  enqueue(c);
  // All others have to wait for a reply, but this one may have time enough.
  if (!window_.is_open() && window_.room(now) > 0 && c.flight.deadline >= expected_answer(now)) {
    window_.open();
  }
}

/// True for a check that came back with an error and, sent now, would probably be answered after
/// its deadline. It is not sent again, and ends with the error: sent, it would end with no_reply.
/// Give-backs and urgent checks may be late.
bool pipeline::comes_back_too_late(const check& c, time now) const noexcept {
  const detail::in_flight& f = c.flight;
  if (!c.ec || f.deadline >= now + window_.idle_answer()) return false;
  // A single check has one key: only the other keys of its call were at another node.
  const bool passes_alone = c.ec == error::slot_migrating && detail::is_single(c);
  return !passes_alone && !f.is_detached && !c.traits.is_urgent;
}

void pipeline::expire(time now, time::duration late) {
  if (process_was_suspended(late)) {
    for (script_call& c : calls_) take_out(c, now, late);
  }
  expire_checks(now, calls_.empty() && !calls_.is_writing(), late);
  if (now >= paused_until_) {
    paused_until_ = time::max();
    waiting_.each_line([&](check_list& list) {
      for_each_if(
          list, [&](const check& c) { return comes_back_too_late(c, now); },
          [this](check& c) { waiting_.pass_over(c); });
    });
  }
  if (now >= window_.wakeup()) window_.note_pause(now);
}

/// Makes the checks of a call that the server did not run wait, as far as they still have to be
/// sent.
void pipeline::came_back(script_call& c, redirection&& why) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) unsend(*it++);
  }
  waiting_.came_back(c, std::move(why));
}

// ---- the connection

void pipeline::connected(const script_set& known, std::chrono::microseconds round_trip) {
  begin_connection();
  scripts_.reset(known);
  wanted_ &= wants_map;
  is_unwelcome_ = is_replica_ = served_ = false;
  farewell_ = {};
  paused_until_ = time::max();
  window_.reset(round_trip, first_keys_);
}

void pipeline::refused(error reason) {
  refuse(reason);
  // A closing store waits for no other connection.
  const auto end = [&](check_list& list) {
    finish_if(list, reason, [this](const check& c) { return closed_ || refuses(c); });
  };
  waiting_.each_list(end);
  end(waiting_.passed_over());
}

void pipeline::disconnected(error reason, std::size_t sent, time now) {
  connected_ = false;
  calls_.lose(sent, [&](script_call& c, bool did_not_run) {
    try {
      if (did_not_run && !c.keys.empty()) came_back(c, {redirection::kind::again});
    } catch (const std::bad_alloc&) {  // the checks end as if they may have run
    }
    for (call_key& key : c.keys) fail_sent(key.checks, reason, now);
    coalescer_.take_back(calls_);
  });
}

void pipeline::close() {
  if (!begin_close()) return;
  window_.stop_pausing();
  finish_all(waiting_.passed_over(), error::store_closed);
  waiting_.each_list([this](check_list& list) { close_unsent(list); });
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

// ---- a Redis Cluster

void pipeline::resume(check_list&& checks, time now) {
  while (!checks.empty()) {
    check& c = checks.front();
    checks.pop_front();
    pending_ += weight_of(c);
    enqueue(c);
    if (refuses(c)) {
      finish(c, refusal_);
    } else if (!is_paused() && comes_back_too_late(c, now)) {
      waiting_.pass_over(c);
    }
  }
  if (!window_.is_open() && window_.room(now) > 0) window_.open();
}

void pipeline::take_redirected(std::vector<redirected_checks>& out) {
  out = waiting_.take_redirected();
  for (redirected_checks& r : out) {
    for (check& c : r.checks) {
      detail::deadline_wheel::remove(c);
      pending_ -= weight_of(c);
    }
  }
}

void pipeline::take_unsent(const std::function<bool(const check&)>& elsewhere, check_list& out) {
  waiting_.each_line([&](check_list& list) {
    for_each_if(list, elsewhere, [&](check& c) {
      release(c);
      out.push_back(c);
    });
  });
  for_each_if(waiting_.passed_over(), elsewhere, [this](check& c) { end_late(c); });
}

// ---- writes

void pipeline::stage(script_call& c, time now) {
  if (c.asks) stage_own(script_call::command::asking, now, "ASKING");
  scripts_.prepare(c, now);
  scripts_sent_ += c.has_text ? 1 : 0;
  writer_.write(out_, c);
  c.end = out_.size();
  c.sent = now;
  window_.sent(c.weight(), timeout_of(c.keys.front().checks.front(), timeout_), now);
  for (call_key& key : c.keys) {
    for (check& waiting : key.checks) {
      waiting.flight.stage = check_stage::sent;
      waiting.flight.sent = now;
      waiting.ec = {};
      ++checks_;
    }
  }
  ++requests_;
  calls_.staged();
}

const std::string& pipeline::next_write(time now) {
  if (!wants_write()) return nothing;
  out_.clear();
  if (out_.capacity() > large_buffer)
    std::string().swap(out_);  // a large burst must not keep its memory for ever
  const std::uint8_t wanted = std::exchange(wanted_, std::uint8_t{0});
  if ((wanted & wants_ping) != 0) stage_own(script_call::command::ping, now, "PING");
  if ((wanted & wants_map) != 0) stage_own(script_call::command::slots, now, "CLUSTER", "SLOTS");
  if (!is_paused()) {
    call_list& packed = pack(now);
    while (!packed.empty()) {
      if (packed.front().script == no_script) {
        for (call_key& key : packed.front().keys) finish_all(key.checks, error::cannot_combine);
        coalescer_.take_back(packed);
        continue;
      }
      stage(packed.front(), now);
      calls_.splice(calls_.end(), packed, packed.begin());
    }
    window_.note_write(!out_.empty() && window_.room(now) > 0, now);
  }
  if (!out_.empty()) calls_.begin_write();
  return out_;
}

/// The calls of the next write; none if all waiting checks have to wait for a reply.
call_list& pipeline::pack(time now) {
  // A closing connection sends all give-backs.
  const coalescer::quota q{.keys = window_.room(now),
                           .reachable = closed_ ? time::min() : expected_answer(now)};
  call_list& calls = waiting_.pack(coalescer_, q);
  if (!calls.empty() || !window_.is_idle() || q.keys == 0) return calls;
  // No reply is due that could show whether the server is still as slow: one check is sent anyway.
  return waiting_.pack(coalescer_, {.keys = 1});
}

// ---- replies

pipeline::stream_state pipeline::consume(reply_reader& reader, time now) {
  error_code ec;
  try {
    while (const reply_view* reply = reader.next(ec)) {
      if (reply->is_push()) continue;
      if (calls_.empty()) return stream_state::broken;  // no reply is due
      prefetch_calls();
      const bool fits = answer(calls_.front(), *reply, now);
      coalescer_.take_back(calls_);
      calls_.answered();
      if (!fits) return stream_state::broken;
    }
  } catch (const std::bad_alloc&) {
    // The reply is lost, and its call would take the reply of the next one.
    return stream_state::broken;
  }
  if (ec) return stream_state::broken;
  return is_unwelcome_ && calls_.empty() ? stream_state::unwelcome : stream_state::good;
}

/// Prefetches the first check of the next call, and the call behind it, for their replies.
inline void pipeline::prefetch_calls() const noexcept {
  auto next = calls_.begin();
  if (++next == calls_.end()) return;
  if (!next->keys.empty()) prefetch_checks(next->keys.front());
  if (++next != calls_.end()) detail::prefetch(*next);
}

/// Answers the call's checks. False if this cannot be the reply to the call: then no later reply
/// can be matched to its call either.
bool pipeline::answer(script_call& c, const reply_view& reply, time now) {
  if (!c.keys.empty()) {
    window_.answered(c.weight(), c.sent, !reply.is_error(), !waiting_.is_empty(), now);
  }
  window_.note_pause(now);
  note_answer(c.sent, now);
  if (c.what != script_call::command::request) {
    answer_own(c, reply);
    return true;
  }
  const error e = read_reply(c, reply, numbers_);
  if (!is_replica_) suspect({});  // it is there, whatever it says
  if (e != error{}) return answer_error(c, reply, e, now);
  scripts_.ran(c);
  served_ |= !is_replica_;  // a replica answers what only looks
  for (call_key& key : c.keys) finish_all(key.checks);
  return true;
}

/// Handles the reply to a command of the connection itself.
void pipeline::answer_own(const script_call& c, const reply_view& reply) {
  const error e = reply.is_error() ? classify_error(reply.root().text) : error{};
  if (c.what == script_call::command::slots) {
    map_.emplace(map_answer{reply.is_error() ? nullptr : read_slot_map(reply, host_), e});
  } else if (c.what == script_call::command::asking) {
    // A node that does not know ASKING, or forbids it, redirects the call.
    const bool is_refused = e == error::command_missing || e == error::permission_denied;
    asking_failure_ = is_refused ? name_command(e, reply.root().text) : error_code();
  }
}

/// As answer(), for an error, or a reply that does not fit.
bool pipeline::answer_error(script_call& c, const reply_view& reply, error e, time now) {
  using step = refusal::step;
  const std::string_view text = reply.is_error() ? reply.root().text : std::string_view();
  refusal r = refusal_of(e, text, in_cluster_, c.keys.size() > 1);
  is_unwelcome_ |= r.leaves;
  if (r.leaves) farewell_ = e;
  error_code end;  // if not zero, the checks end with it
  switch (r.what) {
    case step::answer:
      end = name_command(r.why, text, script_text_of(c));
      scripts_.refused(c, end, now);
      break;
    case step::again:
      end = scripts_.missing(c, now);
      for (call_key& key : c.keys) {
        finish_if(key.checks, error::script_missing, [&end](check& waiting) {
          return !end && ++waiting.flight.resends > server_scripts::max_resends;
        });
      }
      break;
    case step::elsewhere:
      if (c.asks) end = asking_failure_;
      break;
    case step::after_pause:
      paused_until_ = now + pause_when_busy;
      suspect(e);  // for unsent checks, too
      break;
    case step::new_connection:
      is_replica_ = true;
      served_ = false;
      suspect(e);
      break;
  }
  if (end) {
    for (call_key& key : c.keys) finish_all(key.checks, end);
    return e != error::protocol_error;
  }
  const error_code why = r.why == error{} ? error_code() : error_code(r.why);
  for (call_key& key : c.keys) {
    for (check& waiting : key.checks) waiting.ec = why;
  }
  came_back(c, std::move(r.where));
  return true;
}

}  // namespace weir::redis
