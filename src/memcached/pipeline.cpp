#include "memcached/pipeline.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "check/detached_check.hpp"
#include "check/pending.hpp"
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
// The pause behind a failed swap: random between zero and a ceiling that doubles.
constexpr std::chrono::microseconds first_pause{500}, longest_pause{16'000};
const std::string nothing;

}  // namespace

pipeline::pipeline(const options& o, std::uint32_t seed)
    : options_(o),
      max_value_(o.max_value),
      guard_(o.max_clock_skew),
      breaker_(o.breaker_failures, o.timeout, o.breaker_pause),
      random_(seed) {}

void pipeline::finish(check& c) {
  flight_of(c).line.unlink();
  detail::deadline_wheel::remove(c);
  flight_of(c).stage = check_stage::done;
  if (c.ec) c.answer = {};  // an answer that was not stored
  pending_ -= weight_of(c);
  done_.push_back(c);
}

void pipeline::finish_all(check_list& list, error e) {
  while (!list.empty()) finish(list.front(), e);
}

/// Calls f(line) for each, which may end it.
template <class F>
void pipeline::each_line(F&& f) {
  for (auto it = lines_.begin(); it != lines_.end();) {
    line& l = it->second;
    ++it;  // erasing an element leaves the other iterators valid
    f(l);
  }
}

// ---- the lines

void pipeline::make_ready(line& l, bool first) {
  l.at = phase::ready;
  l.place.unlink();
  const bool urgent = !l.waiting.empty() && is_urgent(l.waiting.front());
  line_list& list = urgent ? urgent_ : ready_;
  first ? list.push_front(l) : list.push_back(l);
}

/// Goes on with a line that has no request under way; ends it if it has no checks.
void pipeline::advance(line& l) {
  if (!l.waiting.empty()) return make_ready(l);
  l.place.unlink();
  retries_.put(l, time::max());
  lines_.erase(lines_.find(l.key));
}

/// Ends the lines that have lost all their checks to deadlines and cancellation. Amortized over the
/// calls of submit().
void pipeline::sweep() {
  if (lines_.size() < sweep_at_) return;
  each_line([this](line& l) {
    const bool rests = l.at == phase::idle || l.at == phase::ready || l.at == phase::pausing;
    if (rests && l.waiting.empty()) advance(l);
  });
  sweep_at_ = 2 * lines_.size() + 64;
}

/// Makes the checks of a store that certainly did not happen wait again, in front of all others.
void pipeline::take_back(line& l) {
  for (auto it = l.sent.begin(); it != l.sent.end();) {
    check& c = *it++;
    flight_of(c).stage = check_stage::waiting;
    if (is_stand_in(c)) {
      finish(c, error::store_contention);  // nothing was reserved, so nothing has to be given back
    } else if (closed_ && !detail::gives_back(c)) {
      finish(c, error::store_closed);
    }
  }
  l.waiting.splice(l.waiting.begin(), l.sent);
  l.value.clear();
}

/// Waits behind a lost swap, longer behind each one in a row.
void pipeline::pause(line& l, time now) {
  const auto ceiling = std::min(longest_pause, first_pause * (1 << std::min(l.failures, 8u)));
  ++l.failures;
  l.at = phase::pausing;
  l.place.unlink();
  retries_.put(l, now + std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(
                            0, ceiling.count())(random_)));
}

// ---- the checks

void pipeline::submit(check& c, std::string_view key, time now) {
  const std::size_t before = pending_, weight = weight_of(c);
  pending_ += weight;
  const bool is_last = closed_ && !ended_ && detail::gives_back(c);
  if (refusal_ != error{} && !is_last) return finish(c, refusal_);
  if (skewed_) return finish(c, error::clock_skew);
  const error e = detail::no_room_for(c, weight, before, options_.max_pending, breaker_, now);
  if (e != error{}) return finish(c, e);
  sweep();
  auto found = lines_.find(key);
  if (found == lines_.end()) {
    found = lines_.try_emplace(std::string(key)).first;
    found->second.key = found->first;
  }
  line& l = found->second;
  flight_of(c).deadline = now + timeout_of(c, options_.timeout);
  flight_of(c).stage = check_stage::waiting;
  flight_of(c).position = l.reads;
  is_urgent(c) ? l.waiting.push_front(c) : l.waiting.push_back(c);
  wheel_.add(c);
  if (l.at == phase::idle || (l.at == phase::ready && is_urgent(c))) make_ready(l);
}

void pipeline::cancel(check& c, detail::cancel_scope scope) {
  if (flight_of(c).stage == check_stage::done) return;
  if (scope == detail::cancel_scope::only_unsent && flight_of(c).stage != check_stage::waiting)
    return;
  c.ec = boost::asio::error::operation_aborted;
  give_up(c);
}

/// Ends a check early. A detached check takes the place of an acquire whose store is under way, and
/// gives back what it may reserve.
void pipeline::give_up(check& c) {
  if (c.kind == detail::check_kind::acquire && flight_of(c).stage != check_stage::waiting &&
      !flight_of(c).is_detached) {
    check& other = detail::stand_in_for(c);
    flight_of(other).stage = flight_of(c).stage;
    other.answer = c.answer;
    detail::as<detail::acquire_request>(other).found = detail::as<detail::acquire_request>(c).found;
    flight_of(c).line.swap_nodes(flight_of(other).line);
    pending_ += weight_of(other);
  }
  finish(c);
}

void pipeline::expire(time now) {
  wheel_.expire(now, [this, now](check& c) {
    // Not a failure of the store: it has answered other checks since this one came.
    const time since = flight_of(c).deadline - timeout_of(c, options_.timeout);
    const bool never_asked = flight_of(c).stage == check_stage::waiting && calls_.empty() &&
                             !writing_;
    const bool says_nothing = connected_ && (never_asked || last_answer_ >= since);
    if (!says_nothing) breaker_.failed(since, now);
    end_late(c);
  });
  if (connected_) end_pauses(now);
}

/// Ends a check whose deadline has passed.
void pipeline::end_late(check& c) {
  if (flight_of(c).stage != check_stage::waiting) {
    c.ec = error::no_reply;
  } else if (!c.ec) {  // else: it lost its swaps
    c.ec = suspicion_ != error{} ? suspicion_ : error::timed_out;
  }
  give_up(c);
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

void pipeline::connected(std::size_t max_value) {
  connected_ = true;
  max_value_ = std::min(options_.max_value, max_value);
  suspicion_ = {};
  if (!closed_) refusal_ = {};
  ping_wanted_ = clock_wanted_ = served_ = false;
  breaker_.succeeded();
}

void pipeline::refused(error reason) {
  refusal_ = closed_ ? error::store_closed : reason;
  fail_waiting(reason);
}

void pipeline::disconnected(error reason, std::size_t sent, time now) {
  connected_ = false;
  for (; !calls_.empty(); calls_.pop_front()) {
    const call& c = calls_.front();
    const bool in_write = calls_.size() <= staged_;
    if (c.of == nullptr) continue;
    if (c.what == call::command::store) {
      // The server cannot have got all of a request that was cut short, so it has not run it.
      if (in_write && c.end > sent) {
        take_back(*c.of);
      } else {
        while (!c.of->sent.empty()) {
          breaker_.failed(now, now);
          finish(c.of->sent.front(), reason);
        }
      }
    }
    advance(*c.of);
  }
  // The next server may give an item of its own the CAS number that was read from this one.
  while (!stores_.empty()) {
    line& l = stores_.front();
    take_back(l);
    advance(l);
  }
  end_pauses(time::max());
  staged_ = 0;
  writing_ = false;
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
  if (!connected_ || writing_) return false;
  if (ping_wanted_ || clock_wanted_ || !stores_.empty()) return true;
  return calls_.size() < most_under_way && !(urgent_.empty() && ready_.empty());
}

void pipeline::stage(call::command what, line* of, time now) {
  calls_.push_back({what, of, out_.size(), now});
  ++staged_;
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

const std::string& pipeline::next_write(time now) {
  if (!wants_write()) return nothing;
  out_.clear();
  if (out_.capacity() > large_buffer) std::string().swap(out_);
  staged_ = 0;
  if (std::exchange(ping_wanted_, false)) {
    write_noop(out_);
    stage(call::command::ping, nullptr, now);
  }
  if (std::exchange(clock_wanted_, false)) {
    write_stats(out_);
    stage(call::command::clock, nullptr, now);
  }
  while (!stores_.empty() && out_.size() < full_write) stage_store(stores_.front(), now);
  for (line_list* list : {&urgent_, &ready_}) {
    while (!list->empty() && out_.size() < full_write && calls_.size() < most_under_way) {
      stage_get(list->front(), now);
    }
  }
  writing_ = !out_.empty();
  return out_;
}

void pipeline::write_done() noexcept {
  auto it = calls_.rbegin();
  for (std::size_t i = 0; i < staged_; ++i, ++it) {
    if (it->what != call::command::store) continue;
    for (check& c : it->of->sent) flight_of(c).stage = check_stage::written;
  }
  staged_ = 0;
  writing_ = false;
}

// ---- the end

void pipeline::close() {
  if (std::exchange(closed_, true)) return;
  refusal_ = error::store_closed;
  each_line([this](line& l) {
    for (auto it = l.waiting.begin(); it != l.waiting.end();) {
      check& c = *it++;
      if (!detail::gives_back(c)) finish(c, error::store_closed);
    }
    for (auto it = l.sent.begin(); it != l.sent.end();) {
      check& c = *it++;
      const bool stays = detail::gives_back(c) || c.kind == detail::check_kind::acquire;
      if (!stays) finish(c, error::outcome_unknown);
    }
  });
}

void pipeline::end() {
  close();
  ended_ = true;
  refused(error::store_closed);
  each_line([this](line& l) { finish_all(l.sent, error::outcome_unknown); });
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

}  // namespace weir::memcached
