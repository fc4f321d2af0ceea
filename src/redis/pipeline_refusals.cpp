// What a pipeline does with calls that the server did not run: their checks come back, and wait.
#include <utility>

#include "redis/pipeline.hpp"
#include "redis/refusal.hpp"
#include "redis/resp/error_reply.hpp"

namespace weir::redis {
namespace {

using detail::check;
using detail::check_list;

constexpr std::chrono::milliseconds pause_when_busy{25};
constexpr std::chrono::seconds text_pause{1};  // after the server refused EVAL

/// True if `a` was submitted before `b`; of checks in different slots of a cluster, either may come
/// first.
bool came_before(const check& a, const check& b) noexcept {
  const auto& x = flight_of(a);
  const auto& y = flight_of(b);
  if (x.slot() != y.slot()) return x.slot() < y.slot();
  // The ranks may have come around.
  return static_cast<std::int32_t>(x.order - y.order) < 0;
}

/// Merges two lists in that order. Mostly, all of `more` come behind `all`, which may be long.
void merge(check_list& all, check_list& more) {
  if (all.empty() || more.empty() || !came_before(more.front(), all.back())) {
    all.splice(all.end(), more);
  } else {
    all.merge(more, came_before);
  }
}

std::string_view script_text_of(const script_call& c) {
  return c.kind == detail::check_kind::reset ? std::string_view() : scripts()[c.script].text;
}

}  // namespace

/// Makes the call's checks wait, as far as they still have to be sent.
void pipeline::put_back(script_call& c) {
  for (call_key& key : c.keys) {
    for (auto it = key.checks.begin(); it != key.checks.end();) {
      check& waiting = *it++;
      flight_of(waiting).came_back = 1;
      unsend(waiting);
    }
  }
}

/// Puts the call's checks in front of all checks that were never sent. Checks that came back are
/// sorted by their submission, because one may come back a second time while a later one of its key
/// waits.
void pipeline::requeue(script_call& c) {
  put_back(c);
  if (options_.in_cluster) blocked_ |= redirects;
  check_list back;
  // Checks that came back and found no room in a write are in waiting_.
  while (!waiting_.empty() && flight_of(waiting_.front()).came_back != 0) {
    back.splice(back.end(), waiting_, waiting_.begin());
  }
  merge(again_, back);
  for (call_key& key : c.keys) {
    // A renewal may follow the leave of its lease: it then finds the lease gone, which is right.
    const bool urgent = !key.checks.empty() && is_urgent(key.checks.front());
    (urgent ? urgent_ : back).splice((urgent ? urgent_ : back).end(), key.checks);
  }
  back.sort(came_before);
  merge(again_, back);
}

/// True for a check that came back with an error and, sent now, would probably be answered after
/// its deadline. It is not sent again, and ends with the error: sent, it would end with no_reply.
/// Give-backs and urgent checks may be late.
bool pipeline::comes_back_too_late(const check& c, time now) const noexcept {
  const detail::in_flight& f = flight_of(c);
  if (!c.ec || f.deadline >= now + window_.idle_answer()) return false;
  // A single check has one key: only the other keys of its call were at another node.
  const bool passes_alone = c.ec == error::slot_migrating && detail::is_single(c);
  return !passes_alone && !f.is_detached && !is_urgent(c);
}

/// Checks that came back and have too little time left now are not sent again.
void pipeline::end_pause(time now) {
  paused_until_ = time::max();
  for (check_list* list : {&again_, &waiting_}) {
    for (auto it = list->begin(); it != list->end();) {
      const auto one = it++;
      if (comes_back_too_late(*one, now)) passed_over_.splice(passed_over_.end(), *list, one);
    }
  }
}

/// The server lacks the script of the call. The checks end if they were sent too often, or if the
/// server does not take scripts: returns that error, else zero.
error_code pipeline::lacks_script(script_call& c, time now) {
  // Unless the text was sent again after this call.
  if (c.texts == texts_[c.script]) known_scripts_.reset(c.script);
  if (text_failure_ && now < no_texts_before_) return text_failure_;
  for (call_key& key : c.keys) {
    finish_if(key.checks, error::script_missing,
              [](check& waiting) { return ++flight_of(waiting).resends > max_resends; });
  }
  return {};
}

/// As answer(), for an error, or a reply that does not fit.
bool pipeline::answer_error(script_call& c, const reply_view& reply, error e, time now) {
  using step = refusal::step;
  const std::string_view text = reply.is_error() ? reply.root().text : std::string_view();
  refusal r = refusal_of(e, text, options_.in_cluster, c.keys.size() > 1);
  if (r.leaves) blocked_ |= unwelcome;
  error_code end;  // if not zero, the checks end with it
  switch (r.what) {
    case step::answer:
      end = name_command(r.why, text, script_text_of(c));
      // Without EVAL, the next text waits, because it has some kilobytes.
      if (c.has_text && names_command(end, "EVAL")) {
        text_failure_ = end;
        no_texts_before_ = now + text_pause;
      }
      break;
    case step::again:
      end = lacks_script(c, now);
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
  // In a cluster, a later check of the same key may be sent to another node, so the cluster holds
  // all checks of their slots.
  options_.in_cluster ? hand_over(c, std::move(r.where)) : requeue(c);
  return true;
}

}  // namespace weir::redis
