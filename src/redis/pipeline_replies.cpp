// What a pipeline does with replies.
#include <new>

#include "redis/pipeline.hpp"
#include "redis/resp/error_reply.hpp"
#include "redis/script/reply.hpp"

namespace weir::redis {

void pipeline::heard(const script_call& c, bool ran, time now) {
  if (!c.keys.empty()) window_.answered(c.weight(), c.sent, ran, has_waiting(), now);
  hold(now);
  note_answer(c.sent, now);
}

/// Handles the reply to a command of the connection itself.
void pipeline::answer_own(const script_call& c, const reply_view& reply) {
  const error e = reply.is_error() ? classify_error(reply.root().text) : error{};
  switch (c.what) {
    case script_call::command::slots:
      map_.emplace(map_answer{reply.is_error() ? nullptr : read_slot_map(reply, options_.host), e});
      return;
    case script_call::command::asking:
      note_asking(reply, e);
      return;
    case script_call::command::ping:
    case script_call::command::request:
      return;
  }
}

/// Answers the call's checks. False if this cannot be the reply to the call: then no later reply
/// can be matched to its call either.
bool pipeline::answer(script_call& c, const reply_view& reply, time now) {
  heard(c, !reply.is_error(), now);
  if (c.what != script_call::command::request) {
    answer_own(c, reply);
    return true;
  }
  const error e = read_reply(c, reply, numbers_);
  if (!is_replica_) suspect({});  // it is there, whatever it says
  if (e != error{}) return answer_error(c, reply, e, now);
  if (c.has_text) text_failure_ = {};
  served_ = !is_replica_;
  for (call_key& key : c.keys) finish_all(key.checks);
  return true;
}

/// Prefetches the first check of the next call, and the call behind it, for their replies.
inline void pipeline::prefetch_calls() const noexcept {
  auto next = calls_.begin();
  if (++next == calls_.end()) return;
  if (!next->keys.empty()) prefetch_checks(next->keys.front());
  if (++next != calls_.end()) detail::prefetch(*next);
}

pipeline::stream_state pipeline::consume(reply_reader& reader, time now) {
  error_code ec;
  try {
    while (const reply_view* reply = reader.next(ec)) {
      if (reply->is_push()) continue;
      if (calls_.empty()) return stream_state::broken;  // no reply is due
      prefetch_calls();
      const bool fits = answer(calls_.front(), *reply, now);
      coalescer_.take_back(calls_);
      // Replies may come before the write is reported done.
      if (staged_ > calls_.size()) staged_ = calls_.size();
      if (!fits) return stream_state::broken;
    }
  } catch (const std::bad_alloc&) {
    // The reply is lost, and its call would take the reply of the next one.
    return stream_state::broken;
  }
  if (ec) return stream_state::broken;
  return (blocked_ & unwelcome) != 0 && calls_.empty() ? stream_state::unwelcome
                                                       : stream_state::good;
}

}  // namespace weir::redis
