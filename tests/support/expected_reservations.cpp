#include "support/expected_reservations.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

namespace weir::test {

class expected_reservations::tier {
 public:
  virtual ~tier() = default;
  virtual turn turn_of(std::int64_t now, std::int64_t cost) const = 0;
  virtual void book(std::int64_t now, const reservation& b) = 0;
  virtual void give_back(std::int64_t now, std::size_t number, const reservation& b) = 0;
};

namespace {

__extension__ using wide = __int128;
using reservation = expected_reservations::reservation;

std::int64_t ceil_div(wide a, wide b) { return static_cast<std::int64_t>(a / b + (a % b > 0)); }

/// From when on a bucket counts a reservation, in 1/count microseconds: the earliest exact time
/// that rounds up to the turn, because the rounding is no idle time.
wide earliest(std::int64_t now, std::int64_t turn, wide count, wide unit) {
  if (turn <= now || unit % count == 0) return turn * count;
  const auto part = std::gcd(static_cast<std::int64_t>(count), static_cast<std::int64_t>(unit));
  return (turn - 1) * count + part;
}

/// token_bucket and gcra, by the time at which the bucket would be full. Times as multiples of
/// 1/count microseconds, so that all of them are whole.
///
/// The last in line gives back all of it: as if it had never come. If others stand behind, then
/// what it left the bucket with, less what was given back since (but no less than its own cost from
/// its own turn), and less the time until the last turn: on the rest the others stand. The sum of
/// what was given back is of whole microseconds.
class bucket final : public expected_reservations::tier {
 public:
  bucket(const rate& r, std::int64_t size)
      : count_(r.count), unit_(r.period.count()), burst_(wide{size} * unit_) {}

  expected_reservations::turn turn_of(std::int64_t now, std::int64_t cost) const override {
    const std::int64_t turn = std::max(now, ceil_div(full_ + cost * unit_ - burst_, count_));
    return {turn, turn};
  }

  void book(std::int64_t now, const reservation& b) override {
    const wide begin = earliest(now, b.turn, count_, unit_);
    const wide after = std::max(full_, begin) + b.cost * unit_;
    taken_.push_back({full_, after, returned_, begin + b.cost * unit_, last_turn_});
    full_ = after;
    last_turn_ = std::max(last_turn_ > now ? last_turn_ : 0, b.turn);
  }

  void give_back(std::int64_t now, std::size_t number, const reservation& b) override {
    const taken& t = taken_[number];
    if (full_ <= now * count_) return;
    const wide since = returned_ - t.returned;
    if (full_ + since == t.after) {
      last_turn_ = t.last_turn_before;
      full_ = t.before - since;
      const std::int64_t least = std::max(now, last_turn_);
      if (ceil_div(full_, count_) < least) full_ = least * count_;
      return;
    }
    const wide end = std::min(full_, std::max(t.after - since, t.alone));
    const wide back = std::min(wide{b.cost} * unit_,
                               end - wide{std::max(now, last_turn_)} * count_);
    if (back <= 0) return;
    full_ -= back;
    returned_ += wide{ceil_div(back, count_)} * count_;
  }

 private:
  struct taken {
    wide before, after, returned;
    wide alone;  // its end if it were alone
    std::int64_t last_turn_before;
  };
  wide count_, unit_, burst_;
  wide full_ = 0;
  wide returned_ = 0;
  std::int64_t last_turn_ = 0;
  std::vector<taken> taken_;
};

/// leaky_bucket: one by one. Only the last in line can give a turn back, because the others wait
/// for its end.
class queue final : public expected_reservations::tier {
 public:
  explicit queue(const rate& r) : count_(r.count), unit_(r.period.count()) {}

  expected_reservations::turn turn_of(std::int64_t now, std::int64_t) const override {
    const std::int64_t turn = std::max(now, ceil_div(end_, count_));
    return {turn, turn};
  }
  void book(std::int64_t now, const reservation& b) override {
    const wide begin = std::max(end_, earliest(now, b.turn, count_, unit_));
    taken_.push_back({end_, begin + b.cost * unit_});
    end_ = taken_.back().end;
  }
  void give_back(std::int64_t, std::size_t number, const reservation&) override {
    if (taken_[number].end == end_) end_ = taken_[number].end_before;
  }

 private:
  struct taken {
    wide end_before, end;
  };
  wide count_, unit_;
  wide end_ = 0;
  std::vector<taken> taken_;
};

/// A returned reservation makes room, but no later request comes before the last kept reservation,
/// which is known only by its step if the log has a resolution.
class log final : public expected_reservations::tier {
 public:
  explicit log(const sliding_log& p)
      : limit_(p.limit), window_(p.window.count()), resolution_(p.resolution.count()) {}

  expected_reservations::turn turn_of(std::int64_t now, std::int64_t cost) const override {
    std::int64_t turn = std::max(now, last_);
    // From the newest on: the one with which it would be too much has to have left.
    wide sum = cost;
    for (auto e = entries_.rbegin(); e != entries_.rend(); ++e) {
      if (!e->stands) continue;
      if (e->from + window_ <= turn) break;
      sum += e->cost;
      if (sum > limit_) return {e->from + window_, e->from + window_};
    }
    return {turn, turn};
  }

  void book(std::int64_t now, const reservation& b) override {
    entries_.push_back({counts_from(b.turn), b.cost});
    last_ = b.turn;
    while (!entries_.front().stands || entries_.front().from + window_ <= now) {
      entries_.pop_front();
      ++gone_;
    }
  }

  void give_back(std::int64_t now, std::size_t number, const reservation&) override {
    if (number < gone_ || too_many_since(number - gone_)) return;
    entries_[number - gone_].stands = false;
    if (last_ <= now) return;
    const auto there = std::find_if(entries_.rbegin(), entries_.rend(),
                                    [](const entry& e) { return e.is_there; });
    const auto standing = std::find_if(there, entries_.rend(),
                                       [](const entry& e) { return e.stands; });
    const bool nobody = standing == entries_.rend() || standing->from <= now;
    if (!nobody && standing->from == there->from) return;
    last_ = nobody ? 0 : std::min(last_, standing->from - (resolution_ > 0 ? 1 : 0));
    for (auto e = entries_.rbegin(); e != standing; ++e) e->is_there = false;
  }

 private:
  struct entry {
    std::int64_t from;
    std::int64_t cost;
    bool stands = true;
    bool is_there = true;  // if not: those behind have left as well
  };

  std::int64_t counts_from(std::int64_t turn) const {
    return resolution_ == 0 ? turn : (turn / resolution_ + 1) * resolution_;
  }

  /// The log has more than 128 entries behind this one.
  bool too_many_since(std::size_t place) const {
    std::int64_t last = entries_[place].from, newer = 0;
    for (; place < entries_.size(); ++place) {
      if (!entries_[place].stands || entries_[place].from == last) continue;
      last = entries_[place].from;
      ++newer;
    }
    return newer > 128;
  }

  std::int64_t limit_, window_, resolution_;
  std::deque<entry> entries_;
  std::size_t gone_ = 0;
  std::int64_t last_ = 0;
};

/// A window opened ahead of its time is closed again when all have left it. The window before it is
/// then the last again, as the policy remembers it: it remembers one. If that is gone, then as the
/// reservation that is given back found it: what left that window later still counts there.
class windows final : public expected_reservations::tier {
 public:
  explicit windows(const fixed_window& p)
      : limit_(p.limit),
        length_(p.window.count()),
        epoch_(p.anchor == anchor::epoch),
        offset_(p.offset.count()) {}

  expected_reservations::turn turn_of(std::int64_t now, std::int64_t cost) const override {
    std::int64_t turn = now;
    if (last_.is_open && now < last_.begin + length_) {
      turn = last_.count + cost <= limit_ ? std::max(now, last_.begin) : last_.begin + length_;
    }
    return {turn, turn};
  }

  void book(std::int64_t now, const reservation& b) override {
    found_.push_back(last_);
    if (!last_.is_open || b.turn >= last_.begin + length_) {
      before_ = now < last_.begin + length_ ? last_ : window();
      before_is_known_ = true;
      last_ = {begin_for(b.turn), 0, true};
    }
    last_.count += b.cost;
  }

  void give_back(std::int64_t now, std::size_t number, const reservation& b) override {
    if (is_in(last_, b.turn)) {
      last_.count -= b.cost;
      if (last_.count > 0) return;
      const window& found = found_[number];
      if (last_.begin <= now) {
        last_ = {};
      } else if (before_is_known_) {
        last_ = before_;
        before_is_known_ = false;
      } else if (found.is_open && found.begin < last_.begin) {
        last_ = found;
      }
      // All may have left that one, too, before it began.
      if (last_.count == 0 && last_.begin <= now) last_ = {};
    } else if (is_in(before_, b.turn)) {
      before_.count -= b.cost;
    }
  }

 private:
  struct window {
    std::int64_t begin = 0, count = 0;
    bool is_open = false;
  };
  bool is_in(const window& w, std::int64_t time) const {
    return w.is_open && time >= w.begin && time < w.begin + length_;
  }
  std::int64_t begin_for(std::int64_t time) const {
    return epoch_ ? (time - offset_) / length_ * length_ + offset_ : time;
  }

  std::int64_t limit_, length_;
  bool epoch_;
  std::int64_t offset_;
  window last_, before_;
  bool before_is_known_ = false;
  std::vector<window> found_;  // by each reservation
};

/// sliding_window: two counts, of the present window and the one before, whose weight falls as time
/// goes on. A returned reservation makes room for none to all of its units. So the next time lies
/// between the one computed without the returned reservations and the one computed with all.
class sliding final : public expected_reservations::tier {
 public:
  explicit sliding(const sliding_window& p) : limit_(p.limit), length_(p.window.count()) {}

  expected_reservations::turn turn_of(std::int64_t now, std::int64_t cost) const override {
    return {first_after(std::max(now, kept_.last), cost, kept_.counts),
            first_after(std::max(now, all_.last), cost, all_.counts)};
  }
  void book(std::int64_t now, const reservation& b) override {
    standing_.insert(b.turn);
    for (side* s : {&kept_, &all_}) {
      s->counts[b.turn / length_] += b.cost;
      s->last = std::max(s->last, b.turn);
      s->counts.erase(s->counts.begin(), s->counts.lower_bound(now / length_ - 1));
    }
    standing_.erase(standing_.begin(), standing_.lower_bound(now));
  }
  void give_back(std::int64_t, std::size_t, const reservation& b) override {
    const auto count = kept_.counts.find(b.turn / length_);
    if (count != kept_.counts.end()) count->second -= b.cost;
    if (const auto own = standing_.find(b.turn); own != standing_.end()) standing_.erase(own);
    kept_.last = standing_.empty() ? 0 : *standing_.rbegin();
  }

 private:
  using windows = std::map<std::int64_t, std::int64_t>;  // by the window's number
  struct side {
    windows counts;
    std::int64_t last = 0;
  };

  /// In the window of `time` or one behind it: nothing is counted after that.
  std::int64_t first_after(std::int64_t time, std::int64_t cost, const windows& c) const {
    const auto in = [&](std::int64_t number) {
      const auto found = c.find(number);
      return found == c.end() ? 0 : found->second;
    };
    for (;; time = (time / length_ + 1) * length_) {
      const std::int64_t number = time / length_, end = (number + 1) * length_;
      const wide room = wide{limit_ - cost - in(number)} * length_, before = in(number - 1);
      if (room < 0) continue;
      if (before == 0) return time;
      const std::int64_t passes = end - static_cast<std::int64_t>(room / before);
      if (passes < end) return std::max(time, passes);
    }
  }

  std::int64_t limit_, length_;
  side kept_, all_;
  std::multiset<std::int64_t> standing_;  // turns ahead
};

struct maker {
  using result = std::unique_ptr<expected_reservations::tier>;
  result operator()(const fixed_window& p) const { return std::make_unique<windows>(p); }
  result operator()(const sliding_log& p) const { return std::make_unique<log>(p); }
  result operator()(const sliding_window& p) const { return std::make_unique<sliding>(p); }
  result operator()(const token_bucket& p) const {
    return std::make_unique<bucket>(p.refill, p.capacity);
  }
  result operator()(const gcra& p) const { return std::make_unique<bucket>(p.rate, p.burst); }
  result operator()(const leaky_bucket& p) const { return std::make_unique<queue>(p.leak); }
};

}  // namespace

expected_reservations::expected_reservations(std::span<const policy> policies) {
  for (const policy& p : policies) {
    tiers_.push_back(std::visit(maker{}, p));
  }
}
expected_reservations::~expected_reservations() = default;
expected_reservations::expected_reservations(expected_reservations&&) noexcept = default;

expected_reservations::turn expected_reservations::turn_of(std::int64_t now,
                                                           std::int64_t cost) const {
  turn whole{now, now};
  for (const auto& t : tiers_) {
    const turn one = t->turn_of(now, cost);
    whole = {std::max(whole.earliest, one.earliest), std::max(whole.latest, one.latest)};
  }
  return whole;
}

std::size_t expected_reservations::book(std::int64_t now, std::int64_t turn, std::int64_t cost) {
  reservations_.push_back({turn, cost});
  for (const auto& t : tiers_) t->book(now, reservations_.back());
  return reservations_.size() - 1;
}

void expected_reservations::give_back(std::int64_t now, std::size_t number) {
  reservation& b = reservations_[number];
  if (!b.stands) throw std::logic_error("given back twice");
  for (const auto& t : tiers_) t->give_back(now, number, b);
  b.stands = false;
}

}  // namespace weir::test
