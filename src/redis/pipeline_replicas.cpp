// Calls that are answered only when replicas have their counts. A WAIT follows the calls of a
// write. Until its reply, nothing else is written: the server would not run it, and an unsent check
// can still expire uncounted.
#include <algorithm>

#include "redis/pipeline.hpp"

namespace weir::redis {

using detail::check;
using detail::check_kind;
using detail::check_list;
using detail::check_stage;

namespace {

/// True if the server writes for such a check, and the caller is told of it. A give-back has no
/// caller, and can be repeated.
bool may_count(check_kind kind) noexcept {
  return kind != check_kind::fetch && kind != check_kind::give_back;
}

/// True if a check that was answered without an error has changed nothing.
bool is_refusal(const check& c) noexcept {
  const bool asks = c.kind == check_kind::record || c.kind == check_kind::acquire;
  return asks && !c.answer.allowed && !c.limiter->counts_refused;
}

}  // namespace

/// Ends a write with WAIT, if checks need it, until the last of their deadlines. The server must
/// reply before the connection counts as silent, so another WAIT may have to follow.
void pipeline::stage_wait(time now) {
  time last = now;
  const auto look_at = [&last](const check_list& checks) {
    for (const check& c : checks) last = std::max(last, flight_of(c).deadline);
  };
  // With an open circuit, a call that counts nothing also waits for the replicas: it may be the one
  // that the circuit breaker let through.
  bool needed = !counted_.empty() || breaker_.is_open();
  look_at(counted_);
  auto it = calls_.rbegin();
  for (std::size_t i = 0; i < staged_; ++i, ++it) {
    if (it->what != script_call::command::request || !may_count(it->kind)) continue;
    needed = true;
    for (const call_key& key : it->keys) look_at(key.checks);
  }
  if (!needed) return;
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(last - now);
  // 0 would wait for ever.
  const auto longest = std::clamp(left, milliseconds{1},
                                  std::max(options_.longest_wait, milliseconds{1}));
  stage_own(script_call::command::wait, now, "WAIT", static_cast<std::int64_t>(options_.replicas),
            longest.count());
  blocked_ |= confirming;
}

/// Ends the checks of an answered call that need no replica, and keeps the others. The reservation
/// of a caller that has left goes back, so it needs none.
void pipeline::hold_counted(script_call& c) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) {
      check& answered = *it++;
      const bool has_caller = !flight_of(answered).is_detached;
      if (!has_caller || !may_count(c.kind) || answered.ec || is_refusal(answered)) {
        finish(answered);
      } else {
        flight_of(answered).stage = check_stage::counted;
      }
    }
    counted_.splice(counted_.end(), key.checks);
  }
}

/// Handles the reply to WAIT: how many replicas have all that was written before.
void pipeline::confirmed(const script_call& wait, const reply_view& reply, time now) {
  blocked_ &= static_cast<std::uint8_t>(~confirming);
  const bool is_number = reply.root().type == reply_type::integer;
  // The user may not run WAIT, or the master has become a replica.
  if (!is_number) return finish_all(counted_, error::not_replicated);
  if (reply.root().integer >= static_cast<std::int64_t>(options_.replicas)) {
    // There may have been a WAIT before this one.
    const time since = counted_.empty() ? wait.sent : flight_of(counted_.front()).sent;
    finish_all(counted_);
    note_answer(wait.sent, now);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - since);
    const bool is_first = usual_confirmation_.count() == 0;
    usual_confirmation_ += (took - usual_confirmation_) / (is_first ? 1 : 4);
  } else if (!counted_.empty()) {
    wanted_ |= wants_wait;
  }
}

}  // namespace weir::redis
