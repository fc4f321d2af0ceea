#include "model/reference.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace weir::model {
namespace {

using std::chrono::microseconds;
__extension__ using wide = __int128;

time_point on_clock(std::int64_t at) { return time_point(microseconds(at)); }

/// The first of [low, high] for which `holds`, which never ceases to hold once it does, and does at `high`.
template <class Predicate>
std::int64_t first_that(std::int64_t low, std::int64_t high, Predicate holds) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// What the window policies and the log have in common: something is in use at a time, and it fits or not.
template <class Derived, class Policy>
class counting : public reference {
 public:
  counting(const Policy& p, std::int64_t most) : policy_(p), most_(most) {}

  decision record(std::int64_t now, std::int64_t cost) override {
    if (set_back(now)) self().move_to(now);
    decision d = fetch(now, cost);
    const std::int64_t at = d.at.time_since_epoch().count();
    if (d.allowed || policy_.count_refused) {
      self().add(at, cost);
      figures(at, cost, d);
    }
    return d;
  }

  decision fetch(std::int64_t now, std::int64_t cost) const override {
    if (set_back(now)) {
      Derived moved(self());
      moved.move_to(now);
      return moved.fetch(now, cost);
    }
    const std::int64_t at = self().read_clock(now);
    decision d;
    d.limit = policy_.limit;
    d.at = on_clock(at);
    d.allowed = fits(at, cost);
    figures(at, cost, d);
    return d;
  }

 protected:
  Policy policy_;
  std::int64_t most_;

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  /// By more than the policy looks back: what is counted then stays in use, but from now on.
  bool set_back(std::int64_t now) const {
    return self().read_clock(now) - now > policy_.window.count();
  }

  bool fits(std::int64_t at, std::int64_t cost) const {
    return policy_.limit == unlimited || wide{self().in_use(at)} + cost <= policy_.limit;
  }

  void figures(std::int64_t at, std::int64_t cost, decision& d) const {
    d.used = self().in_use(at);
    d.remaining = policy_.limit == unlimited ? unlimited
                                             : std::max<std::int64_t>(0, policy_.limit - d.used);
    if (!d.allowed) {
      const auto passes = [&](std::int64_t t) { return fits(t, cost); };
      d.retry_after = microseconds(first_that(at, self().idle_from(), passes) - at);
    }
    if (d.used > 0) {
      const auto idle = [&](std::int64_t t) { return self().idle(t); };
      d.reset_after = microseconds(first_that(at, self().idle_from(), idle) - at);
    }
  }
};

class fixed_window_reference final : public counting<fixed_window_reference, fixed_window> {
 public:
  using counting::counting;

  bool idle(std::int64_t at) const { return in_use(at) == 0; }

  std::int64_t read_clock(std::int64_t now) const { return start_ ? std::max(now, *start_) : now; }
  std::int64_t in_use(std::int64_t at) const { return start_ && at < idle_from() ? count_ : 0; }
  std::int64_t idle_from() const { return *start_ + policy_.window.count(); }

  void move_to(std::int64_t now) { start_ = begin_of_window(now); }

  void add(std::int64_t at, std::int64_t cost) {
    if (!start_ || at >= idle_from()) {
      start_ = begin_of_window(at);
      count_ = 0;
    }
    count_ = static_cast<std::int64_t>(std::min<wide>(wide{count_} + cost, most_));
  }

 private:
  std::int64_t begin_of_window(std::int64_t at) const {
    if (policy_.anchor == anchor::first_request) return at;
    std::int64_t into = (at - policy_.offset.count()) % policy_.window.count();
    if (into < 0) into += policy_.window.count();
    return at - into;
  }

  std::optional<std::int64_t> start_;
  std::int64_t count_ = 0;
};

class sliding_log_reference final : public counting<sliding_log_reference, sliding_log> {
 public:
  using counting::counting;

  /// A request that came when the count was saturated is in use too, though the sum cannot show it.
  bool idle(std::int64_t at) const { return at >= idle_from(); }

  std::int64_t read_clock(std::int64_t now) const {
    return log_.empty() ? now : std::max(now, log_.back().time - policy_.resolution.count());
  }

  std::int64_t in_use(std::int64_t at) const {
    std::int64_t sum = 0;
    for (const request& r : log_) {
      if (at - r.time < policy_.window.count()) sum += r.cost;
    }
    return sum;
  }

  std::int64_t idle_from() const { return log_.back().time + policy_.window.count(); }

  void move_to(std::int64_t now) {
    const std::int64_t sum = in_use(read_clock(now));
    log_ = {{counts_from(now), policy_.count_refused ? std::min(sum, limit()) : sum}};
  }

  void add(std::int64_t at, std::int64_t cost) {
    std::erase_if(log_, [&](const request& r) { return at - r.time >= policy_.window.count(); });
    const std::int64_t time = counts_from(at);
    cost = std::min(cost, most_ - in_use(at));
    if (!log_.empty() && log_.back().time == time) {
      log_.back().cost += cost;
    } else {
      log_.push_back({time, cost});
    }
    if (!policy_.count_refused || policy_.limit == unlimited) return;
    log_.back().cost = std::min(log_.back().cost, policy_.limit);
    // The newest that fill the limit decide; what is older can wait for nothing.
    while (in_use(at) - log_.front().cost >= policy_.limit) log_.erase(log_.begin());
  }

 private:
  struct request {
    std::int64_t time;
    std::int64_t cost;
  };

  std::int64_t limit() const { return policy_.limit == unlimited ? most_ : policy_.limit; }

  std::int64_t counts_from(std::int64_t at) const {
    const std::int64_t width = policy_.resolution.count();
    return width == 0 ? at : (at / width + 1) * width;
  }

  std::vector<request> log_;
};

class sliding_window_reference final : public counting<sliding_window_reference, sliding_window> {
 public:
  using counting::counting;

  bool idle(std::int64_t at) const { return in_use(at) == 0; }

  std::int64_t read_clock(std::int64_t now) const {
    return index_ ? std::max(now, *index_ * policy_.window.count()) : now;
  }

  // previous * (window - e) + (current + c) * window <= limit * window, divided by the window; c and the limit are whole,
  // so the fraction rounded up compares the same.
  std::int64_t in_use(std::int64_t at) const {
    const std::int64_t window = policy_.window.count();
    const std::int64_t elapsed = at % window;
    const wide weighed = wide{counted(at / window - 1)} * (window - elapsed);
    return static_cast<std::int64_t>((weighed + window - 1) / window) + counted(at / window);
  }

  std::int64_t idle_from() const { return (*index_ + 2) * policy_.window.count(); }

  void move_to(std::int64_t now) {
    const wide all = wide{current_} + previous_;
    const std::int64_t most = policy_.limit == unlimited ? most_ : std::min(most_, policy_.limit);
    current_ = static_cast<std::int64_t>(std::min<wide>(all, most));
    previous_ = 0;
    index_ = now / policy_.window.count();
  }

  void add(std::int64_t at, std::int64_t cost) {
    const std::int64_t index = at / policy_.window.count();
    const std::int64_t current = counted(index);
    previous_ = counted(index - 1);
    current_ = static_cast<std::int64_t>(std::min<wide>(wide{current} + cost, most_));
    index_ = index;
  }

 private:
  std::int64_t counted(std::int64_t index) const {
    if (!index_) return 0;
    return index == *index_ ? current_ : index == *index_ - 1 ? previous_ : 0;
  }

  std::optional<std::int64_t> index_;
  std::int64_t current_ = 0;
  std::int64_t previous_ = 0;
};

// The three meters. All fractions have one denominator, so they are kept as its multiples: units as multiples of
// 1/period, times as multiples of 1/count microseconds. 2^53 us * 2^52 units fit 128 bits.

wide ceil_div(wide a, wide b) { return a / b + (a % b > 0); }
wide floor_div(wide a, wide b) { return a / b - (a % b < 0); }
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
    before.figures(d.at.time_since_epoch().count(), d);
    return d;
  }

 private:
  /// A clock behind by more than the bucket takes to fill: it counts as full, from now on.
  void settle(std::int64_t now) {
    Derived& self = static_cast<Derived&>(*this);
    const std::int64_t ahead = self.read_clock(now) - now;
    if (ahead > self.filling_time()) self.move_back(ahead);
  }
};

class token_bucket_reference final : public metering<token_bucket_reference> {
 public:
  explicit token_bucket_reference(const token_bucket& p)
      : capacity_(p.capacity), count_(p.refill.count), period_(p.refill.period.count()) {}

  /// There was never less than nothing in the bucket: a clock that says so is behind.
  std::int64_t read_clock(std::int64_t now) const {
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
    d.at = on_clock(at);
    d.allowed = want <= have;
    if (d.allowed) {
      tokens_ = have - want;
      last_ = at;
    } else {
      d.retry_after = whole_us(want - have, count_);
    }
    figures(at, d);
    return d;
  }

  void figures(std::int64_t at, decision& d) const {
    d.remaining = static_cast<std::int64_t>(tokens_at(at) / period_);
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
      : capacity_(p.capacity), count_(p.leak.count), period_(p.leak.period.count()) {}

  /// There was never more in the bucket than it holds: a clock that says so is behind.
  std::int64_t read_clock(std::int64_t now) const {
    const wide room = wide{capacity_} * period_ - level_;
    return last_ ? std::max(now, *last_ - static_cast<std::int64_t>(room / count_)) : now;
  }
  std::int64_t filling_time() const {
    return static_cast<std::int64_t>(wide{capacity_} * period_ / count_);
  }
  void move_back(std::int64_t by) { *last_ -= by; }

  decision judge(std::int64_t at, std::int64_t cost) {
    const wide full = wide{capacity_} * period_;
    const wide level = level_at(at);
    const wide after = level + wide{cost} * period_;
    decision d;
    d.limit = capacity_;
    d.at = on_clock(at);
    d.allowed = after <= full;
    if (d.allowed) {
      d.delay = whole_us(level, count_);
      level_ = after;
      last_ = at;
    } else {
      d.retry_after = whole_us(after - full, count_);
    }
    figures(at, d);
    return d;
  }

  void figures(std::int64_t at, decision& d) const {
    d.used = static_cast<std::int64_t>(ceil_div(level_at(at), period_));
    d.remaining = capacity_ - d.used;
    d.reset_after = whole_us(level_at(at), count_);
  }

 private:
  wide level_at(std::int64_t at) const {
    return last_ ? std::max<wide>(0, level_ - wide{at - *last_} * count_) : 0;
  }

  std::int64_t capacity_, count_, period_;
  std::optional<std::int64_t> last_;
  wide level_ = 0;  // at last_
};

class gcra_reference final : public metering<gcra_reference> {
 public:
  explicit gcra_reference(const gcra& p)
      : burst_(p.burst), count_(p.rate.count), period_(p.rate.period.count()) {}

  /// No TAT is ever written further ahead than the tolerance.
  std::int64_t read_clock(std::int64_t now) const {
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
    d.at = on_clock(at);
    d.allowed = next - wide{at} * count_ <= tolerance;
    if (d.allowed) {
      arrival_ = next;
    } else {
      d.retry_after = whole_us(next - tolerance - wide{at} * count_, count_);
    }
    figures(at, d);
    return d;
  }

  void figures(std::int64_t at, decision& d) const {
    const wide ahead = arrival_at(at) - wide{at} * count_;
    d.remaining = static_cast<std::int64_t>(floor_div(wide{burst_} * period_ - ahead, period_));
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

std::unique_ptr<reference> make_reference(const policy& p, std::int64_t most) {
  struct maker {
    std::int64_t most;
    std::unique_ptr<reference> operator()(const fixed_window& p) const {
      return std::make_unique<fixed_window_reference>(p, most);
    }
    std::unique_ptr<reference> operator()(const sliding_log& p) const {
      return std::make_unique<sliding_log_reference>(p, most);
    }
    std::unique_ptr<reference> operator()(const sliding_window& p) const {
      return std::make_unique<sliding_window_reference>(p, most);
    }
    std::unique_ptr<reference> operator()(const token_bucket& p) const {
      return std::make_unique<token_bucket_reference>(p);
    }
    std::unique_ptr<reference> operator()(const gcra& p) const {
      return std::make_unique<gcra_reference>(p);
    }
    std::unique_ptr<reference> operator()(const leaky_bucket& p) const {
      return std::make_unique<leaky_bucket_reference>(p);
    }
  };
  return std::visit(maker{most}, p);
}

}  // namespace weir::model
