#include <algorithm>
#include <new>

#include "memcached/pipeline.hpp"
#include "text/number.hpp"

namespace weir::memcached {
namespace {

using detail::check;
using detail::check_stage;

error meaning_of(std::string_view server_error) {
  if (server_error.find("too large") != server_error.npos) return error::state_too_large;
  if (server_error.find("out of memory") != server_error.npos) return error::out_of_memory;
  return error::server_error;
}

}  // namespace

pipeline::stream_state pipeline::consume(meta_reader& reader, time now, policies::instant clock) {
  error_code ec;
  try {
    while (const meta_reply* reply = reader.next(ec)) {
      if (calls_.empty() || !answer(*reply, now, clock)) return stream_state::broken;
      calls_.answered();
    }
  } catch (const std::bad_alloc&) {
    // The reply is lost, and its call would take the reply of the next one.
    return stream_state::broken;
  }
  return ec ? stream_state::broken : stream_state::good;
}

/// False if this cannot be the reply to the first call, or may have left the server out of step.
bool pipeline::answer(const meta_reply& reply, time now, policies::instant clock) {
  const call c = calls_.front();
  note_answer(c.sent, now);
  if (c.of != nullptr) {
    using kind = meta_reply::kind;
    const bool ran = reply.what != kind::server_error && reply.what != kind::client_error;
    window_.answered(1, c.sent, ran, !ready_.empty(), now);
    window_.note_pause(now);
  }
  using kind = meta_reply::kind;
  switch (c.what) {
    case call::command::ping:
      if (reply.what != kind::noop) return false;
      break;
    case call::command::clock:
      if (reply.what == kind::stat) return answer_clock(reply, now, clock);
      if (reply.what != kind::end) return false;
      break;
    case call::command::get:
      if (!answer_get(*c.of, reply, now, clock)) return false;
      break;
    case call::command::store:
      if (!answer_store(*c.of, reply, now)) return false;
      break;
  }
  calls_.pop_front();
  return true;
}

bool pipeline::answer_clock(const meta_reply& reply, time now, policies::instant clock) {
  constexpr std::string_view name = "time ";
  if (!reply.text.starts_with(name)) return true;
  const auto seconds = text::read_number<std::int64_t>(reply.text.substr(name.size()));
  if (!seconds || !policies::is_instant(*seconds) || *seconds > policies::max_exact / 1'000'000) {
    return false;
  }
  compare_clock(*seconds, clock,
                std::chrono::duration_cast<std::chrono::microseconds>(now - calls_.front().sent),
                now);
  return true;
}

/// Runs the waiting checks on the value that was read. Checks that came after the read was sent
/// take part only if something is to be stored: the server then stores it only if the value is
/// still there. Otherwise another process may have changed it before they came, so they wait for
/// the next value.
check_batch::result pipeline::decide(line& l, const meta_reply& reply, policies::instant clock,
                                     set_aside& later) {
  const auto came_later = [&l](const check& c) { return c.flight.position == l.reads; };
  const auto run = [&] {
    if (l.waiting.empty()) return check_batch::result{};
    return batch_.run(l.waiting, reply.text, reply.oversized, clock, max_value_, l.value);
  };
  const auto run_without = [&] {
    for (auto it = l.waiting.begin(); it != l.waiting.end();) {
      const auto one = it++;
      if (!came_later(*one)) continue;
      one->ec = {};
      one->answer = {};
      detail::check_list& to = one->traits.is_urgent ? later.urgent : later.others;
      to.splice(to.end(), l.waiting, one);
    }
    return run();
  };
  // Tries first what was right for the last value, because each run decodes the whole value.
  const bool expects_nothing = l.was_unchanged;
  const check_batch::result first = expects_nothing ? run_without() : run();
  l.was_unchanged = first.what == check_batch::verdict::unchanged;
  const bool needs_another = l.was_unchanged && !expects_nothing &&
                             std::any_of(l.waiting.begin(), l.waiting.end(), came_later);
  return needs_another ? run_without() : first;
}

bool pipeline::answer_get(line& l, const meta_reply& reply, time now, policies::instant clock) {
  using kind = meta_reply::kind;
  if (reply.what == kind::server_error || reply.what == kind::client_error) {
    finish_all(l.waiting, meaning_of(reply.text));
    if (reply.what == kind::client_error) return false;
    advance(l);
    return true;
  }
  const bool is_there = reply.what == kind::value;
  if (!is_there && reply.what != kind::missing) return false;
  if (is_there && reply.cas == 0) return false;  // every item has a number (memcached -C has none)
  served_ = true;
  if (!guard_.is_steady(clock, now) && !skewed_) {
    set_skewed(true);
    clock_wanted_ = true;
  }
  if (l.waiting.empty()) {
    advance(l);
    return true;
  }
  set_aside later;
  const check_batch::result r = decide(l, reply, clock, later);
  for (std::size_t i = 0; i < r.checks; ++i) {
    check& c = l.waiting.front();
    ++checks_;
    if (r.what == check_batch::verdict::unchanged || c.ec) {
      finish(c);
      continue;
    }
    l.waiting.pop_front();
    l.sent.push_back(c);
    c.flight.stage = check_stage::sent;
    c.flight.sent = now;
  }
  l.waiting.splice(l.waiting.begin(), later.urgent);
  l.waiting.splice(l.waiting.end(), later.others);
  if (l.latest == time::max()) {
    l.latest = time::min();  // what had no caller may have left
    for (const check& c : l.waiting) note_deadline(l, c);
  }
  if (l.sent.empty()) {
    l.failures = 0;
    advance(l);
    return true;
  }
  l.cas = reply.cas;
  l.verdict = r.what;
  l.ends = r.ends;
  l.decided_at = clock;
  l.at = phase::to_store;
  stores_.push_back(l);
  return true;
}

bool pipeline::answer_store(line& l, const meta_reply& reply, time now) {
  using kind = meta_reply::kind;
  switch (reply.what) {
    case kind::done:
      finish_all(l.sent);
      l.failures = 0;
      advance(l);
      return true;
    case kind::exists:
    case kind::not_stored:
    case kind::not_found:
      take_back(l);
      for (auto it = l.waiting.begin(); it != l.waiting.end();) {
        check& c = *it++;
        // Checks that came meanwhile have not taken part, but one attempt more or less does not
        // matter.
        c.ec = error::store_contention;
        if (++c.flight.resends >= max_attempts) finish(c);
      }
      l.waiting.empty() ? advance(l) : pause(l, now);
      return true;
    case kind::server_error:
      finish_all(l.sent, meaning_of(reply.text));
      advance(l);
      return true;
    case kind::client_error:
      finish_all(l.sent, error::server_error);
      return false;
    default:
      return false;
  }
}

}  // namespace weir::memcached
