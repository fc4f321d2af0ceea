#include "model/reference.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace weir::model {
namespace {

using std::chrono::microseconds;
__extension__ using wide = __int128;

time_point on_clock(std::int64_t at) { return time_point(microseconds(at)); }

/// The first of [low, high] for which `holds`, which never ceases to hold once it does, and does at
/// `high`.
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

/// What the window policies and the log have in common: something is in use at a time, and it fits
/// or not.
template <class Derived, class Policy>
class counting : public reference {
 public:
  counting(const Policy& p, std::int64_t most) : policy_(p), most_(most) {}

  decision record(std::int64_t now, std::int64_t cost) override {
    if (set_back(now)) self().move_to(now);
    decision d = fetch(now, cost);
    const std::int64_t at = d.decided_at.time_since_epoch().count();
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
    d.decided_at = on_clock(at);
    d.allowed = fits(at, cost);
    figures(at, cost, d);
    return d;
  }

 protected:
  Policy policy_;
  std::int64_t most_;

  /// A time that had passed when the last request was counted.
  std::int64_t own_time(std::int64_t now) const { return self().read_clock(now); }

 private:
  friend Derived;
  Derived& self() { return static_cast<Derived&>(*this); }
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  /// By more than the policy looks back: what is counted then stays in use, but from now on.
  bool set_back(std::int64_t now) const {
    return self().own_time(now) - now > policy_.window.count();
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

  std::int64_t read_clock(std::int64_t now) const { return now; }
  std::int64_t own_time(std::int64_t now) const {
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
    const std::int64_t sum = in_use(own_time(now));
    log_ = {{counts_from(now), policy_.count_refused ? std::min(sum, limit()) : sum}};
  }

  void add(std::int64_t at, std::int64_t cost) {
    std::erase_if(log_, [&](const request& r) { return at - r.time >= policy_.window.count(); });
    // Behind a clock that stepped back.
    const std::int64_t time = std::max(counts_from(at), log_.empty() ? 0 : log_.back().time);
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

  // previous * (window - e) + (current + c) * window <= limit * window, divided by the window; c
  // and the limit are whole, so the fraction rounded up compares the same.
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

}  // namespace

std::unique_ptr<reference> reference_of(const fixed_window& p, std::int64_t most) {
  return std::make_unique<fixed_window_reference>(p, most);
}
std::unique_ptr<reference> reference_of(const sliding_log& p, std::int64_t most) {
  return std::make_unique<sliding_log_reference>(p, most);
}
std::unique_ptr<reference> reference_of(const sliding_window& p, std::int64_t most) {
  return std::make_unique<sliding_window_reference>(p, most);
}

}  // namespace weir::model
