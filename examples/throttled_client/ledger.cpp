#include "ledger.hpp"

#include <algorithm>

namespace throttled {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::seconds pause_length{1};

/// HTTP's whole seconds: never less than it takes.
std::chrono::seconds in_seconds(vendor_clock::duration d) {
  return std::max<std::chrono::seconds>(1s, std::chrono::ceil<std::chrono::seconds>(d));
}

vendor_limits with_reserve(vendor_limits l) {
  l.saved_up -= l.at_once;
  return l;
}

}  // namespace

ledger::limits::limits(const vendor_limits& l)
    : second(static_cast<std::size_t>(l.per_second), 1s),
      bucket(static_cast<std::size_t>(l.saved_up), vendor_clock::duration(1s) / l.rate) {}

ledger::ledger(const vendor_limits& limits, std::chrono::seconds measured,
               std::vector<vendor_clock::duration> pauses)
    : rules_(limits),
      measured_(measured),
      planned_(std::move(pauses)),
      limits_(limits),
      ideal_(with_reserve(limits)) {}

void ledger::begin(vendor_time now) {
  start_ = ideal_at_ = now;
  end_ = now + measured_;
}

ledger::answer ledger::arrive(vendor_time now, const call& c) {
  if (!end_) begin(now);
  if (now >= *end_) {
    ++inside_;
    return {.served = true};
  }
  if (wants_pause(now, c)) return {.retry_after = in_seconds(pauses_.back().until - now)};

  if (inside_ >= rules_.at_once) {
    ++report_.violations.at_once;
    return {.retry_after = 1s};
  }
  if (const auto next = limits_.earliest(now); next > now) {
    if (limits_.second.earliest(now) > now) ++report_.violations.per_second;
    if (limits_.bucket.earliest(now) > now) ++report_.violations.rate;
    return {.retry_after = in_seconds(next - now)};
  }
  limits_.take(now);
  ++report_.served;
  report_.most_at_once = std::max(report_.most_at_once, ++inside_);
  report_.most_per_second = std::max(report_.most_per_second,
                                     rules_.per_second - static_cast<int>(left(now).per_second));
  return {.served = true};
}

bool ledger::wants_pause(vendor_time now, const call& c) {
  if (!pauses_.empty() && c.heard >= pauses_.back().told) {
    auto& known = pauses_.back().known;
    known = std::min(known.value_or(*c.heard), *c.heard);
  }
  if (!planned_.empty() && now - start_ >= planned_.front()) {
    planned_.erase(planned_.begin());
    use_allowance(now);
    pauses_.push_back({.told = now, .until = now + pause_length});
    ideal_at_ = now + pause_length;
    return true;  // this call gets the 429
  }
  if (pauses_.empty() || now >= pauses_.back().until) return false;
  pauses_.back().calls.push_back(c.asked);
  return true;
}

/// The ideal client, up to now: it takes each call at the first moment at which it may, outside the
/// pauses.
void ledger::use_allowance(vendor_time until) {
  for (;;) {
    const auto next = ideal_.earliest(ideal_at_);
    if (next >= until) break;
    ideal_at_ = next;
    ideal_.take(next);
    ++report_.allowance;
  }
}

vendor_report ledger::close() {
  use_allowance(*end_);
  for (const pause& p : pauses_) {
    const auto did_not_know = std::count_if(p.calls.begin(), p.calls.end(), [&](vendor_time asked) {
      return !p.known || asked <= *p.known;
    });
    const std::int64_t on_their_way = std::min<std::int64_t>(did_not_know, rules_.at_once);
    ++report_.pauses;
    report_.on_their_way += on_their_way;
    report_.violations.in_pause += static_cast<std::int64_t>(p.calls.size()) - on_their_way;
  }
  return report_;
}

}  // namespace throttled
