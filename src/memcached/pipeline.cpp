#include "memcached/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "memcached/expiry.hpp"
#include "memcached/meta_writer.hpp"
#include "memcached/wire_key.hpp"

namespace weir::memcached {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

constexpr std::size_t most_under_way = 512;     // requests
constexpr std::size_t full_write = 128 * 1024;  // bytes; one more request may follow them
constexpr std::size_t large_buffer = 1024 * 1024;
// The pause after a failed swap: random between zero and a ceiling that doubles.
constexpr std::chrono::microseconds first_pause{500}, longest_pause{16'000};
const std::string nothing;

}  // namespace

pipeline::pipeline(const memcached_options& o, std::uint32_t seed)
    : admission(o),
      batch_(clock_guard::most_between_clients(o.max_clock_skew)),
      guard_(o.max_clock_skew),
      random_(seed),
      window_(o.timeout / 2, most_under_way, seed, most_under_way) {}

/// Calls f(line) for each line; f may end it.
template <class F>
void pipeline::each_line(F&& f) {
  for (auto it = lines_.begin(); it != lines_.end();) {
    line& l = it->second;
    ++it;  // erasing an element leaves the other iterators valid
    f(l);
  }
}

// ---- the lines

void pipeline::make_ready(line& l) {
  l.at = phase::ready;
  l.place.unlink();
  const bool urgent = !l.waiting.empty() && l.waiting.front().traits.is_urgent;
  (urgent ? urgent_ : ready_).push_back(l);
}

/// Goes on with a line that has no request under way; ends it if it has no checks.
void pipeline::advance(line& l) {
  if (!l.waiting.empty()) return make_ready(l);
  lines_.erase(lines_.find(l.key));  // it leaves the lists
}

/// Ends the lines that have lost all their checks to deadlines and cancellation. Amortized over the
/// calls of submit().
void pipeline::sweep() {
  if (lines_.size() < sweep_at_) return;
  each_line([this](line& l) {
    const bool rests = l.at == phase::idle || l.at == phase::ready || l.at == phase::late ||
                       l.at == phase::pausing;
    if (rests && l.waiting.empty()) advance(l);
  });
  sweep_at_ = 2 * lines_.size() + 64;
}

/// Called after a store that certainly did not happen: its checks wait again, in front of all
/// others.
void pipeline::take_back(line& l) {
  for (auto it = l.sent.begin(); it != l.sent.end();) {
    check& c = *it++;
    note_deadline(l, c);
    unsend(c);
  }
  l.waiting.splice(l.waiting.begin(), l.sent);
  l.value.clear();
}

/// Pauses the line after a failed swap, longer after each one in a row.
void pipeline::pause(line& l, time now) {
  const auto ceiling = std::min(longest_pause, first_pause * (1 << std::min(l.failures, 8u)));
  ++l.failures;
  l.at = phase::pausing;
  l.place.unlink();
  retries_.put(l, now + std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(
                            0, ceiling.count())(random_)));
}

// ---- the checks

/// Checks without a caller may be answered late.
void pipeline::note_deadline(line& l, const check& c) noexcept {
  const bool has_caller = !c.traits.is_urgent && !c.flight.is_detached;
  l.latest = std::max(l.latest, has_caller ? c.flight.deadline : time::max());
}

void pipeline::submit(check& c, std::string_view key, time now) {
  error e = admit(c, now, skewed_ ? error::clock_skew : error{});
  if (e == error{} && !is_served()) e = why_not_wait(c, now);
  if (e != error{}) return finish(c, e);
  sweep();
  auto found = lines_.find(key);
  if (found == lines_.end()) {
    found = lines_.try_emplace(std::string(key)).first;
    found->second.key = found->first;
  }
  line& l = found->second;
  c.flight.stage = check_stage::waiting;
  c.flight.position = l.reads;
  c.traits.is_urgent ? l.waiting.push_front(c) : l.waiting.push_back(c);
  wheel_.add(c);
  note_deadline(l, c);
  if (l.at == phase::idle || l.at == phase::late || (l.at == phase::ready && c.traits.is_urgent)) {
    make_ready(l);
  }
}

void pipeline::expire(time now, time::duration late) {
  if (process_was_suspended(late)) {
    for (call& c : calls_) take_out(c, now, late);
  }
  expire_checks(now, calls_.empty() && !calls_.is_writing(), late);
  if (late.count() > 0) {  // some have other deadlines now
    each_line([](line& l) {
      for (const check& c : l.waiting) note_deadline(l, c);
    });
  }
  if (connected_) end_pauses(now);
  if (now >= window_.wakeup()) window_.note_pause(now);
}

/// Goes on with the lines whose pause is over.
void pipeline::end_pauses(time now) {
  while (line* l = retries_.first_due(now)) {
    retries_.put(*l, time::max());
    advance(*l);
  }
}

void pipeline::fail_waiting(error e) {
  each_line([&](line& l) { finish_all(l.waiting, e); });
}

// ---- the connection

void pipeline::connected(std::size_t max_value, std::chrono::microseconds round_trip) {
  begin_connection();
  window_.reset(round_trip);
  max_value_ = max_value;
  ping_wanted_ = clock_wanted_ = served_ = false;
}

void pipeline::disconnected(error reason, std::size_t sent, time now) {
  connected_ = false;
  calls_.lose(sent, [&](const call& c, bool did_not_run) {
    if (c.what == call::command::store && did_not_run) {
      take_back(*c.of);
    } else if (c.what == call::command::store) {
      fail_sent(c.of->sent, reason, now);
    }
    if (c.of != nullptr) advance(*c.of);
    calls_.pop_front();
  });
  // From here on, the server keeps them waiting, and no longer the processes that were faster.
  each_line([](line& l) {
    for (check& c : l.waiting) c.ec = {};
  });
  // On the next server, another item may have the CAS number that was read from this one.
  while (!stores_.empty()) {
    line& l = stores_.front();
    take_back(l);
    advance(l);
  }
  end_pauses(time::max());
}

void pipeline::set_skewed(bool is) {
  skewed_ = is;
  if (is) fail_waiting(error::clock_skew);
}

void pipeline::compare_clock(std::int64_t seconds, policies::instant clock,
                             std::chrono::microseconds waited, time now) {
  set_skewed(!guard_.compare(seconds, clock, waited, now));
}

bool pipeline::wants_write() const noexcept {
  if (!connected_ || calls_.is_writing()) return false;
  if (ping_wanted_ || clock_wanted_ || !stores_.empty()) return true;
  return !urgent_.empty() || (window_.is_open() && !(ready_.empty() && late_.empty()));
}

void pipeline::stage(call::command what, line* of, time now) {
  calls_.push_back({what, of, out_.size(), now});
  calls_.staged();
  if (of == nullptr) return;
  ++requests_;
  const check_list& checks = what == call::command::get ? of->waiting : of->sent;
  // A check waits for two replies, one after the other.
  const auto timeout = checks.empty() ? timeout_ : timeout_of(checks.front(), timeout_);
  window_.sent(1, timeout / 2, now);
}

/// True if all checks of the line would probably be answered too late: they would count for nobody,
/// and take the room of checks that have time. A check needs one reply or two.
bool pipeline::comes_too_late(const line& l, time now) const noexcept {
  return l.latest < now + (l.was_unchanged ? 1 : 2) * window_.expected(lines_.size());
}

/// How many more lines may be read.
std::size_t pipeline::room(time now) const noexcept {
  return std::min(window_.room(now), most_under_way - std::min(most_under_way, calls_.size()));
}

void pipeline::stage_get(line& l, time now) {
  l.place.unlink();
  if (l.waiting.empty()) return advance(l);
  write_get(out_, wire_key(l.key));
  ++l.reads;
  l.at = phase::reading;
  stage(call::command::get, &l, now);
}

void pipeline::stage_store(line& l, time now) {
  l.place.unlink();
  if (l.verdict == check_batch::verdict::store) {
    write_store(out_, wire_key(l.key), l.value, l.cas,
                expiry_of(l.ends, l.decided_at, guard_.server_ahead()));
  } else {
    write_delete(out_, wire_key(l.key), l.cas);
  }
  std::string().swap(l.value);
  l.at = phase::storing;
  stage(call::command::store, &l, now);
}

/// Reads ready lines, as far as there is room, and puts those aside that would be answered late.
void pipeline::stage_ready(time now) {
  // Replies have become faster.
  if (!late_.empty() && !comes_too_late(late_.back(), now)) {
    while (!late_.empty()) make_ready(late_.front());
  }
  const std::size_t most = calls_.size() + room(now);
  while (!ready_.empty() && calls_.size() < most && out_.size() < full_write) {
    line& l = ready_.front();
    if (l.waiting.empty() || !comes_too_late(l, now)) {
      stage_get(l, now);
    } else {
      l.place.unlink();
      l.at = phase::late;
      late_.push_back(l);
    }
  }
  // No reply is due that could show whether the server is still as slow: one line is read anyway.
  while (window_.is_idle() && calls_.size() < most && !late_.empty()) stage_get(late_.back(), now);
}

const std::string& pipeline::next_write(time now) {
  if (!wants_write()) return nothing;
  out_.clear();
  if (out_.capacity() > large_buffer) std::string().swap(out_);
  if (std::exchange(ping_wanted_, false)) {
    write_noop(out_);
    stage(call::command::ping, nullptr, now);
  }
  if (std::exchange(clock_wanted_, false)) {
    write_stats(out_);
    stage(call::command::clock, nullptr, now);
  }
  while (!stores_.empty() && out_.size() < full_write) stage_store(stores_.front(), now);
  while (!urgent_.empty() && out_.size() < full_write) stage_get(urgent_.front(), now);
  stage_ready(now);
  window_.note_write(!out_.empty() && room(now) > 0, now);
  if (!out_.empty()) calls_.begin_write();
  return out_;
}

// ---- the end

void pipeline::close() {
  if (!begin_close()) return;
  window_.stop_pausing();
  each_line([this](line& l) {
    close_unsent(l.waiting);
    close_sent(l.sent);
  });
}

void pipeline::end() {
  close();
  ended_ = true;
  fail_waiting(error::store_closed);
  each_line([this](line& l) { finish_all(l.sent, error::outcome_unknown); });
}

check_list pipeline::abandon() {
  end();
  return take_done();
}

}  // namespace weir::memcached
