// The pipeline's writes: calls, and the connection's own commands.

#include "redis/pipeline.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_stage;
using detail::timeout_of;

constexpr std::size_t large_buffer = 1024 * 1024;
const std::string nothing;

}  // namespace

/// True if the call must carry its script's text: it is the first one on this connection, or the
/// server had not the script when its checks were sent before.
bool pipeline::needs_text(const script_call& c, time now) const noexcept {
  if (c.kind == detail::check_kind::reset || now < no_texts_before_) return false;
  const check& first = c.keys.front().checks.front();
  return !known_scripts_[c.script] || flight_of(first).resends == max_resends;
}

void pipeline::stage(script_call& c, time now) {
  if (c.asks) stage_own(script_call::command::asking, now, "ASKING");
  c.has_text = needs_text(c, now);
  if (c.has_text) {
    ++texts_[c.script];
    known_scripts_.set(c.script);
  }
  c.texts = texts_[c.script];
  writer_.write(out_, c);
  c.end = out_.size();
  c.sent = now;
  window_.sent(c.weight(), timeout_of(c.keys.front().checks.front(), timeout_), now);
  for (call_key& key : c.keys) {
    for (check& waiting : key.checks) {
      flight_of(waiting).stage = check_stage::sent;
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
    waiting_.swap(again_);  // checks that come back before the next write go first in it
    // With no call in flight, no reply would set this later.
    may_send_ = window_.is_idle() || (!out_.empty() && window_.room(now) > 0);
    if (window_.is_idle()) hold(now);
  }
  writing_ = !out_.empty();
  return out_;
}

/// The calls of the next write; none if all waiting checks have to wait for a reply.
call_list& pipeline::pack(time now) {
  again_.splice(again_.end(), waiting_);
  // A closing connection sends all give-backs.
  const coalescer::quota q{.keys = window_.room(now),
                           .reachable = closed_ ? time::min() : expected_answer(now)};
  call_list& calls = coalescer_.pack(urgent_, again_, q, passed_over_);
  if (!calls.empty() || !window_.is_idle() || q.keys == 0) return calls;
  // No reply is due that could show whether the server is still as slow: one check is sent anyway.
  return coalescer_.pack(urgent_, again_, {.keys = 1}, passed_over_);
}

/// Notes whether the pause of the window holds all waiting checks back.
void pipeline::hold(time now) {
  may_send_ = now >= window_.opens_at();
  opens_at_ = may_send_ ? time::max() : window_.opens_at();
}

void pipeline::write_done() {
  staged_ = 0;
  writing_ = false;
}

}  // namespace weir::redis
