#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weir/limiter.hpp"

namespace weir::model {

/// The line of acquire() as docs/waiting.md tells of it, in the plainest way: one list of
/// callers, one of asks, and every question answered by looking at all of them. Microseconds
/// throughout. What is done is noted as text.
class plain_line final {
 public:
  struct caller {
    std::size_t id;
    std::int64_t priority, came, patience, cost;
    std::int64_t until;       // when its patience ends; with a turn: how late that may become
    std::int64_t heard = 0;   // of a turn
    std::int64_t ask = none;  // on its behalf, or its turn
    std::int64_t again = 0;   // when it is asked for once more; 0 for never
    std::int64_t failed_as = 0;
    std::int64_t back_after = 0;  // refused in a pause: after how long to come back, without jitter
    bool is_inside = false, has_heard = false;
    bool is_told = false;
    bool would_leave = false;  // if it could at no cost
  };
  struct ask {
    std::int64_t cost, patience;
    std::int64_t whom;  // a caller, or none
    bool is_started = false, is_out = true, is_unwanted = false;
    bool is_turn = false, from_store = true;
    std::int64_t due = 0, heard_as = 0, told_at = 0, put_off = 0;  // of a turn
    int pauses = 0;  // how many were known when it was asked for
  };

  static constexpr std::int64_t none = -1;

  plain_line(std::size_t most, on_overflow overflow, std::int64_t priority_aging,
             std::int64_t ask_again, std::int64_t same_end)
      : most_(most),
        overflow_(overflow),
        ageing_(priority_aging),
        ask_again_(ask_again),
        same_end_(same_end) {}

  std::int64_t now = 0;
  std::vector<std::string> told, asked, cancelled, returned;

  void arrive(std::int64_t priority, std::int64_t patience, std::int64_t cost) {
    const auto id = static_cast<std::int64_t>(callers_.size());
    callers_.push_back({callers_.size(), priority, now, patience, cost, now + patience});
    if (has_room()) {
      callers_.back().is_inside = true;
      enter(id);
    } else {
      overflow(id);
    }
    settle();
  }

  void leave(std::int64_t who, bool only_unsent) {
    caller& c = at(who);
    ask* const its = c.ask == none ? nullptr : &requests_[index(c.ask)];
    if (its != nullptr && its->is_out && !its->is_started) {
      its->is_out = false;
      its->is_started = true;
    } else if (only_unsent && its != nullptr) {
      if (its->is_turn) return;
      its->is_unwanted = c.would_leave = true;
      cancelled.push_back(std::to_string(c.ask));
      return;
    } else {
      withdraw(who);
    }
    tell(who, "aborted");
    settle();
  }

  void start_all() {
    for (ask& a : requests_) a.is_started = true;
  }

  void answer(std::int64_t which, const std::string& failure, const decision& d) {
    requests_[index(which)].is_out = false;
    hear(which, failure, d);
    settle();
  }

  void on_time() {
    for (;;) {
      std::int64_t next = none;
      for (const caller& c : callers_) {
        if (c.is_told || c.again == 0 || c.again > now) continue;
        if (next == none || c.failed_as < at(next).failed_as)
          next = static_cast<std::int64_t>(c.id);
      }
      if (next == none) break;
      at(next).again = 0;
      enter(next);
    }
    settle();
  }

  void cool_down(std::int64_t until) {
    if (until > pause_begun_ + same_end_) {
      pause_begun_ = until;
      ++pauses_;
    }
    held_until_ = std::max(held_until_, until);
    put_off();
    settle();
  }

  std::size_t count_inside() const {
    return static_cast<std::size_t>(
        std::count_if(callers_.begin(), callers_.end(),
                      [](const caller& c) { return c.is_inside && !c.is_told; }));
  }
  /// Those that have a turn, or are to be asked for once more.
  std::size_t count_waiting() const {
    return static_cast<std::size_t>(std::count_if(
        callers_.begin(), callers_.end(), [this](const caller& c) { return is_waiting(c); }));
  }
  std::size_t count_bounded() const {
    return overflow_ == on_overflow::refuse_new ? count_inside() : count_waiting();
  }
  bool waits(std::int64_t who) const { return !callers_[index(who)].is_told; }
  const std::vector<caller>& callers() const { return callers_; }
  const std::vector<ask>& requests() const { return requests_; }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  caller& at(std::int64_t who) { return callers_[index(who)]; }

  bool is_waiting(const caller& c) const {
    return c.is_inside && !c.is_told && !(c.ask != none && requests_[index(c.ask)].is_out);
  }
  /// Asked before a newcomer is inside.
  bool has_room() const { return count_bounded() < most_; }
  void drop_one_too_many() {
    if (count_waiting() <= most_) return;
    std::int64_t last = none;
    for (const caller& c : callers_) {
      if (is_waiting(c) && (last == none || goes_before(at(last), c)))
        last = static_cast<std::int64_t>(c.id);
    }
    withdraw(last);
    tell(last, "overloaded");
  }

  /// By today's priorities.
  bool goes_before(const caller& a, const caller& b) const {
    const auto today = [this](const caller& c) {
      return ageing_ == 0 ? c.priority : c.priority * ageing_ + (now - c.came);
    };
    return today(a) != today(b) ? today(a) > today(b) : a.id < b.id;
  }

  template <class Which>
  std::int64_t first(Which&& which) {
    std::int64_t best = none;
    for (const caller& c : callers_) {
      if (c.is_told || !which(c)) continue;
      if (best == none || goes_before(c, at(best))) best = static_cast<std::int64_t>(c.id);
    }
    return best;
  }

  void ask_for(std::int64_t who, std::int64_t patience) {
    asked.push_back(std::to_string(who) + " within " + std::to_string(patience));
    requests_.push_back({at(who).cost, patience, who});
    requests_.back().pauses = pauses_;
    at(who).ask = static_cast<std::int64_t>(requests_.size()) - 1;
  }

  void tell(std::int64_t who, const std::string& what) {
    told.push_back(std::to_string(who) + " " + what);
    caller& c = at(who);
    c.is_told = true;
    if (c.ask != none) requests_[index(c.ask)].whom = none;
  }
  static std::string text(std::int64_t at, std::int64_t delay, std::int64_t retry) {
    return std::to_string(at) + "+" + std::to_string(delay) + "/" + std::to_string(retry);
  }

  /// The earliest turn that would go back serves a newcomer who can use it.
  void enter(std::int64_t who) {
    std::int64_t best = none;
    for (const std::int64_t back : goes_back_) {
      const ask& a = requests_[index(back)];
      if (a.cost != at(who).cost || a.due < now || a.due > at(who).until || a.due < held_until_)
        continue;
      if (best == none || a.due < requests_[index(best)].due) best = back;
    }
    if (best == none) return come_in(who);
    std::erase(goes_back_, best);
    ask& a = requests_[index(best)];
    a.whom = who;
    a.is_turn = true;
    a.is_unwanted = false;
    at(who).ask = best;
    at(who).heard = now;
    at(who).has_heard = true;
  }

  void come_in(std::int64_t who) {
    const caller& c = at(who);
    const std::int64_t left = c.until - now, step = std::max<std::int64_t>(1, c.patience / 64);
    ask_for(who, left == c.patience ? left : std::max<std::int64_t>(0, left / step * step));
  }

  void withdraw(std::int64_t who) {
    const std::int64_t own = at(who).ask;
    if (own == none) return;
    if (!requests_[index(own)].is_turn) {
      requests_[index(own)].whom = none;
      requests_[index(own)].is_unwanted = true;
      cancelled.push_back(std::to_string(own));
      return;
    }
    // The last reservation of that cost goes back, and its waiter takes this one.
    std::int64_t last = own;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(requests_.size()); ++i) {
      const ask& a = requests_[index(i)];
      if (a.is_turn && a.cost == at(who).cost && comes_before(last, i)) last = i;
    }
    exchange(own, last);
    requests_[index(last)].is_turn = false;
    if (requests_[index(last)].from_store) goes_back_.push_back(last);
  }

  void hear(std::int64_t which, const std::string& failure, const decision& d) {
    ask& a = requests_[index(which)];
    const std::int64_t who = a.whom;
    const bool from_store = d.source == source::store;
    if (who == none) {
      if (failure.empty() && d.allowed && from_store) {
        become_turn(a, d);
        a.is_turn = false;
        goes_back_.push_back(which);
      }
    } else if (failure == "timed out" && !a.is_unwanted && now + ask_again_ <= at(who).until) {
      a.whom = none;
      at(who).ask = none;
      at(who).again = now + ask_again_;
      at(who).failed_as = ++answers_;
      drop_one_too_many();
    } else if (!failure.empty()) {
      tell(who, failure);
    } else if (!d.allowed) {
      const std::int64_t less = from_store ? at(who).patience - a.patience : 0;
      const std::int64_t retry = std::max<std::int64_t>(1, d.retry_after.count() - less);
      tell(who, text(d.decided_at.time_since_epoch().count(), 0, retry));
    } else {
      become_turn(a, d);
      if (!at(who).has_heard) at(who).until = now + a.patience;
      at(who).has_heard = true;
      at(who).heard = now;
      drop_one_too_many();
    }
    put_off();
  }

  void become_turn(ask& a, const decision& d) {
    a.is_turn = true;
    a.from_store = d.source == source::store;
    a.due = now + d.delay.count();
    a.heard_as = ++answers_;
    a.told_at = (d.decided_at + d.delay).time_since_epoch().count();
  }

  /// Turns in a pause, the first one first, are given back. Then those who are last ask again, if
  /// they have turns for the others. What was asked for in the pause waits for its end.
  void put_off() {
    if (now >= held_until_) return;
    for (;;) {
      std::int64_t next = none;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(requests_.size()); ++i) {
        const ask& a = requests_[index(i)];
        if (a.is_turn && a.due < held_until_ && (next == none || comes_before(i, next))) next = i;
      }
      if (next == none) return;
      ask& a = requests_[index(next)];
      const std::int64_t who = a.whom;
      if (a.from_store && a.pauses != pauses_) {
        ask_again_for(next);
        continue;
      }
      if (held_until_ <= at(who).until) {
        a.put_off += held_until_ - a.due;
        a.due = held_until_;
        continue;
      }
      const std::int64_t told_at = a.told_at - (a.due - a.put_off - now);
      a.is_turn = false;
      if (a.from_store) goes_back_.push_back(next);
      at(who).back_after = std::max<std::int64_t>(1, held_until_ - now - at(who).patience);
      tell(who, std::to_string(told_at) + " in a pause");
    }
  }

  void ask_again_for(std::int64_t turn) {
    const caller& owner = at(requests_[index(turn)].whom);
    std::int64_t last = static_cast<std::int64_t>(owner.id);
    for (const caller& c : callers_) {
      if (c.is_told || c.cost != owner.cost || c.ask == none || !requests_[index(c.ask)].is_turn)
        continue;
      if (goes_before(at(last), c)) last = static_cast<std::int64_t>(c.id);
    }
    if (requests_[index(at(last).ask)].due <= owner.until) exchange(at(last).ask, turn);
    ask& a = requests_[index(turn)];
    const std::int64_t who = a.whom;
    a.is_turn = false;
    a.whom = none;
    goes_back_.push_back(turn);
    at(who).ask = none;
    if (at(who).would_leave) return tell(who, "aborted");
    come_in(who);
  }

  void go_on() {
    for (;;) {
      std::int64_t next = none;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(requests_.size()); ++i) {
        const ask& a = requests_[index(i)];
        if (a.is_turn && a.due <= now && (next == none || comes_before(i, next))) next = i;
      }
      if (next == none) return;
      const std::int64_t cost = requests_[index(next)].cost;
      const caller& owner = at(requests_[index(next)].whom);
      // The first in rank whose turn the owner can take, or else the owner itself.
      const std::int64_t best = first([&](const caller& c) {
        if (c.cost != cost || c.ask == none || !requests_[index(c.ask)].is_turn) return false;
        return c.id == owner.id || requests_[index(c.ask)].due <= owner.until;
      });
      exchange(at(best).ask, next);
      ask& a = requests_[index(next)];
      a.is_turn = false;
      const std::int64_t delay = std::max<std::int64_t>(0, a.due - a.put_off - at(a.whom).heard);
      tell(a.whom, text(a.told_at - delay, delay, 0));
    }
  }

  bool comes_before(std::int64_t i, std::int64_t j) const {
    const ask &a = requests_[index(i)], &b = requests_[index(j)];
    return a.due != b.due ? a.due < b.due : a.heard_as < b.heard_as;
  }
  void exchange(std::int64_t i, std::int64_t j) {
    std::swap(requests_[index(i)].whom, requests_[index(j)].whom);
    at(requests_[index(i)].whom).ask = i;
    at(requests_[index(j)].whom).ask = j;
  }

  void overflow(std::int64_t id) {
    std::int64_t dropped = id;
    if (overflow_ == on_overflow::refuse_new) return tell(id, "overloaded");
    for (const caller& c : callers_) {
      if (!is_waiting(c)) continue;
      if (goes_before(at(dropped), c)) dropped = static_cast<std::int64_t>(c.id);
    }
    if (dropped == id) return tell(id, "overloaded");
    withdraw(dropped);
    tell(dropped, "overloaded");
    at(id).is_inside = true;
    enter(id);
  }

  /// If a turn goes back, and a waiter of its cost has a later one by the store's clock, the waiter
  /// takes the first one, and its own goes back. True if a waiter's turn is due now.
  bool keep_the_first() {
    for (std::int64_t& back : goes_back_) {
      std::int64_t last = none;
      const auto count = static_cast<std::int64_t>(requests_.size());
      for (std::int64_t i = 0; i < count; ++i) {
        const ask& a = requests_[index(i)];
        if (!a.is_turn || a.cost != requests_[index(back)].cost) continue;
        if (last == none || comes_before(last, i)) last = i;
      }
      if (last == none) continue;
      ask &first = requests_[index(back)], &other = requests_[index(last)];
      if (!other.from_store || first.told_at >= other.told_at || first.due < held_until_) continue;
      if (other.due < first.due) {
        first.due = other.due;
        first.put_off = other.put_off;
      }
      first.whom = std::exchange(other.whom, none);
      first.is_turn = std::exchange(other.is_turn, false);
      first.is_unwanted = false;
      at(first.whom).ask = back;
      back = last;
    }
    return std::any_of(requests_.begin(), requests_.end(),
                       [this](const ask& a) { return a.is_turn && a.due <= now; });
  }

  void settle() {
    go_on();
    // What goes back goes before what is asked for next, and else after what may come back yet.
    while (!may_come_back() && keep_the_first()) go_on();
    if (may_come_back()) return;
    for (const std::int64_t back : goes_back_) returned.push_back(std::to_string(back));
    goes_back_.clear();
  }

  /// A request is out, and none has to wait for what goes back.
  bool may_come_back() const {
    const auto any = [this](auto&& which) {
      return std::any_of(requests_.begin(), requests_.end(), which);
    };
    return any([](const ask& a) { return a.is_out; }) &&
           !any([](const ask& a) { return !a.is_started; });
  }

  const std::size_t most_;
  const on_overflow overflow_;
  const std::int64_t ageing_, ask_again_, same_end_;
  std::int64_t held_until_ = 0, pause_begun_ = 0;
  int pauses_ = 0;
  std::vector<caller> callers_;
  std::vector<ask> requests_;
  std::vector<std::int64_t> goes_back_;
  std::int64_t answers_ = 0;
};

}  // namespace weir::model
