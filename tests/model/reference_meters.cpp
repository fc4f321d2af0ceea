#include <algorithm>
#include <numeric>
#include <optional>

#include "model/reference.hpp"

namespace weir::model {
namespace {

using std::chrono::microseconds;
__extension__ using wide = __int128;

time_point on_clock(std::int64_t at) { return time_point(microseconds(at)); }

// All fractions have one denominator, so they are kept as its multiples: units as multiples of
// 1/period, times as multiples of 1/count microseconds. 2^53 us * 2^52 units fit 128 bits.

wide ceil_div(wide a, wide b) { return a / b + (a % b > 0); }
microseconds whole_us(wide a, wide b) {
  return microseconds(static_cast<std::int64_t>(ceil_div(std::max<wide>(a, 0), b)));
}

template <class Derived>
class metering : public reference {
 public:
  decision record(std::int64_t now, std::int64_t cost) override {
    Derived& self = static_cast<Derived&>(*this);
    self.settle(now);
    return self.judge(self.read_clock(now), cost);
  }

  decision fetch(std::int64_t now, std::int64_t cost) const override {
    Derived before = static_cast<const Derived&>(*this);
    before.settle(now);
    decision d = Derived(before).record(now, cost);
    before.figures(d.decided_at.time_since_epoch().count(), d);
    return d;
  }

  void reserve(std::int64_t turn, std::int64_t cost) override {
    static_cast<Derived&>(*this).take(earliest(turn), cost, least_part_);
  }

 protected:
  explicit metering(const rate& r) {
    if (r.period.count() % r.count != 0) least_part_ = std::gcd(r.count, r.period.count());
  }

  std::int64_t earliest(std::int64_t turn) const { return least_part_ > 0 ? turn - 1 : turn; }

  /// The smallest part of a microsecond, as a multiple of 1/count; 0 if T is whole microseconds.
  std::int64_t least_part_ = 0;

 private:
  /// A clock behind by more than the bucket takes to fill: it counts as full, from now on.
  void settle(std::int64_t now) {
    Derived& self = static_cast<Derived&>(*this);
    const std::int64_t ahead = self.own_time(now) - now;
    if (ahead > self.filling_time()) self.move_back(ahead);
  }
};

class token_bucket_reference final : public metering<token_bucket_reference> {
 public:
  explicit token_bucket_reference(const token_bucket& p)
      : metering(p.refill),
        capacity_(p.capacity),
        count_(p.refill.count),
        period_(p.refill.period.count()) {}

  std::int64_t read_clock(std::int64_t now) const { return now; }
  /// There was never less than nothing in the bucket: a clock that says so is behind.
  std::int64_t own_time(std::int64_t now) const {
    return last_ ? std::max(now, *last_ - static_cast<std::int64_t>(tokens_ / count_)) : now;
  }
  std::int64_t filling_time() const {
    return static_cast<std::int64_t>(wide{capacity_} * period_ / count_);
  }
  void move_back(std::int64_t by) { *last_ -= by; }

  decision judge(std::int64_t at, std::int64_t cost) {
    const wide have = tokens_at(at);
    const wide want = wide{cost} * period_;
    decision d;
    d.limit = capacity_;
    d.decided_at = on_clock(at);
    d.allowed = want <= have;
    if (d.allowed) {
      take(at, cost);
    } else {
      d.retry_after = whole_us(want - have, count_);
    }
    figures(at, d);
    return d;
  }

  void take(std::int64_t at, std::int64_t cost, std::int64_t later_by = 0) {
    const wide full = wide{capacity_} * period_;
    tokens_ = std::min(tokens_at(at), full - later_by) - wide{cost} * period_;
    last_ = at;
  }

  void figures(std::int64_t at, decision& d) const {
    d.remaining = static_cast<std::int64_t>(std::max<wide>(0, tokens_at(at)) / period_);
    d.used = capacity_ - d.remaining;
    d.reset_after = whole_us(wide{capacity_} * period_ - tokens_at(at), count_);
  }

 private:
  wide tokens_at(std::int64_t at) const {
    const wide full = wide{capacity_} * period_;
    return last_ ? std::min(full, tokens_ + wide{at - *last_} * count_) : full;
  }

  std::int64_t capacity_, count_, period_;
  std::optional<std::int64_t> last_;
  wide tokens_ = 0;  // at last_
};

class leaky_bucket_reference final : public metering<leaky_bucket_reference> {
 public:
  explicit leaky_bucket_reference(const leaky_bucket& p)
      : metering(p.leak),
        capacity_(p.capacity),
        count_(p.leak.count),
        period_(p.leak.period.count()) {}

  std::int64_t read_clock(std::int64_t now) const { return ahead_ ? std::max(now, *last_) : now; }
  /// There was never more in the bucket than it holds: a clock that says so is behind.
  std::int64_t own_time(std::int64_t now) const {
    if (ahead_) return std::max(now, *last_);
    const wide room = wide{capacity_} * period_ - level_;
    return last_ ? std::max(now, *last_ - static_cast<std::int64_t>(room / count_)) : now;
  }
  std::int64_t filling_time() const {
    return static_cast<std::int64_t>(wide{capacity_} * period_ / count_);
  }
  void move_back(std::int64_t by) {
    *last_ -= by;
    if (ahead_) *ahead_ -= by;
    forget_turn();
  }

  decision judge(std::int64_t at, std::int64_t cost) {
    const wide full = wide{capacity_} * period_;
    const wide level = level_at(at);
    const wide after = level + wide{cost} * period_;
    decision d;
    d.limit = capacity_;
    d.decided_at = on_clock(at);
    d.allowed = after <= full;
    if (d.allowed) {
      d.delay = whole_us(level, count_);
      take(at, cost);
    } else {
      d.retry_after = whole_us(after - full, count_);
    }
    figures(at, d);
    return d;
  }

  void take(std::int64_t at, std::int64_t cost, std::int64_t later_by = 0) {
    level_ = std::max<wide>(level_at(at), later_by) + wide{cost} * period_;
    last_ = at;
    forget_turn();
  }

  void figures(std::int64_t at, decision& d) const {
    // Delayed by another queue, a fast one may be filled beyond 64 bits.
    const bool is_full = level_at(at) >= wide{capacity_} * period_;
    d.used = is_full ? capacity_ : static_cast<std::int64_t>(ceil_div(level_at(at), period_));
    d.remaining = capacity_ - d.used;
    d.reset_after = whole_us(level_at(at), count_);
  }

  void delay_until(std::int64_t start, std::int64_t cost, decision& d) override {
    const std::int64_t at = d.decided_at.time_since_epoch().count();
    if (at + d.delay.count() >= start) return;
    d.delay = microseconds(start - at);
    level_ = wide{earliest(start) - at} * count_ + least_part_ + wide{cost} * period_;
    ahead_ = std::max(ahead_.value_or(start), start);
    figures(at, d);
  }

 private:
  void forget_turn() {
    if (ahead_ && *ahead_ <= *last_) ahead_.reset();
  }

  wide level_at(std::int64_t at) const {
    return last_ ? std::max<wide>(0, level_ - wide{at - *last_} * count_) : 0;
  }

  std::int64_t capacity_, count_, period_;
  std::optional<std::int64_t> last_;
  wide level_ = 0;                     // at last_
  std::optional<std::int64_t> ahead_;  // the last start that another policy has delayed
};

class gcra_reference final : public metering<gcra_reference> {
 public:
  explicit gcra_reference(const gcra& p)
      : metering(p.rate), burst_(p.burst), count_(p.rate.count), period_(p.rate.period.count()) {}

  std::int64_t read_clock(std::int64_t now) const { return now; }
  /// No TAT is ever written further ahead than the tolerance.
  std::int64_t own_time(std::int64_t now) const {
    if (!arrival_) return now;
    const wide passed = ceil_div(*arrival_ - wide{burst_} * period_, count_);
    return std::max(now, static_cast<std::int64_t>(passed));
  }
  std::int64_t filling_time() const {
    return static_cast<std::int64_t>(wide{burst_} * period_ / count_);
  }
  void move_back(std::int64_t by) { *arrival_ -= wide{by} * count_; }

  decision judge(std::int64_t at, std::int64_t cost) {
    const wide tolerance = wide{burst_} * period_;
    const wide next = arrival_at(at) + wide{cost} * period_;
    decision d;
    d.limit = burst_;
    d.decided_at = on_clock(at);
    d.allowed = next - wide{at} * count_ <= tolerance;
    if (d.allowed) {
      take(at, cost);
    } else {
      d.retry_after = whole_us(next - tolerance - wide{at} * count_, count_);
    }
    figures(at, d);
    return d;
  }

  void take(std::int64_t at, std::int64_t cost, std::int64_t later_by = 0) {
    arrival_ = std::max(arrival_at(at), wide{at} * count_ + later_by) + wide{cost} * period_;
  }

  void figures(std::int64_t at, decision& d) const {
    const wide ahead = arrival_at(at) - wide{at} * count_;
    const wide room = std::max<wide>(0, wide{burst_} * period_ - ahead);
    d.remaining = static_cast<std::int64_t>(room / period_);
    d.used = burst_ - d.remaining;
    d.reset_after = whole_us(ahead, count_);
  }

 private:
  wide arrival_at(std::int64_t at) const {
    const wide now = wide{at} * count_;
    return arrival_ ? std::max(*arrival_, now) : now;
  }

  std::int64_t burst_, count_, period_;
  std::optional<wide> arrival_;  // TAT, in 1/count us
};

}  // namespace

std::unique_ptr<reference> reference_of(const token_bucket& p, std::int64_t) {
  return std::make_unique<token_bucket_reference>(p);
}
std::unique_ptr<reference> reference_of(const gcra& p, std::int64_t) {
  return std::make_unique<gcra_reference>(p);
}
std::unique_ptr<reference> reference_of(const leaky_bucket& p, std::int64_t) {
  return std::make_unique<leaky_bucket_reference>(p);
}

}  // namespace weir::model
