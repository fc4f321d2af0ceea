#pragma once

#include <array>

#include "support/random_source.hpp"
#include "weir/decision.hpp"

namespace weir::model {

/// A clock that goes where limiters break: nowhere, by a microsecond, exactly onto, just before and
/// just after the times that decisions announced, over several windows at once, and backward.
class trace_clock {
 public:
  /// `span` is the policy's own measure of time.
  trace_clock(test::random_source& random, std::int64_t start, std::int64_t span)
      : random_(random), first_(start), now_(start), span_(span) {}

  std::int64_t now() const noexcept { return now_; }

  void advance() {
    const std::int64_t chance = random_.between(0, 99);
    if (chance < 25) return;
    if (chance < 35) {
      now_ += random_.between(1, 3);
    } else if (chance < 60) {
      now_ += random_.magnitude(span_);
    } else if (chance < 65) {
      now_ += random_.between(0, span_);
    } else if (chance < 88) {
      now_ = random_.pick(announced_) + random_.between(-1, 1);
    } else if (chance < 93) {
      now_ += random_.between(span_, 4 * span_);
    } else if (chance < 98) {
      now_ -= random_.magnitude(span_);
    } else {
      now_ -= random_.between(0, 3 * span_);
    }
    // Within the years in which a server's clock may stand.
    if (now_ < lowest() || now_ > highest) now_ = first_;
  }

  void hear(const decision& d) {
    announced_[next_] = (d.decided_at + (d.allowed ? d.reset_after : d.retry_after))
                            .time_since_epoch()
                            .count();
    next_ = (next_ + 1) % announced_.size();
  }

 private:
  static constexpr std::int64_t highest = 4'000'000'000'000'000;  // the year 2096

  std::int64_t lowest() const noexcept { return first_ < earliest_real ? 0 : earliest_real; }
  static constexpr std::int64_t earliest_real = 1'200'000'000'000'000;  // the year 2008

  test::random_source& random_;
  std::int64_t first_;
  std::int64_t now_;
  std::int64_t span_;
  std::array<std::int64_t, 6> announced_{now_, now_, now_, now_, now_, now_};
  std::size_t next_ = 0;
};

}  // namespace weir::model
