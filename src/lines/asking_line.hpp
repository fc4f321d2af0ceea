#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lines/subject_line.hpp"

namespace weir::detail {

/// What an asking_line has to know of those whom it asks.
struct pace {
  std::int64_t limit;                // units that pass at one time, at the most
  std::chrono::microseconds window;  // in which as many more become free, at the most
  // A leaky_bucket would let several pass and delay them, while the window counts them at once. So one passes, when it need
  // not be delayed.
  bool one_by_one = false;
};

/// Of what the check asks, if one of it cannot book; else nothing. In units of the check's own cost.
std::optional<pace> pace_of(const check& c);

/// Where a sliding_window is among those asked, which cannot book: nobody knows how much the present window will come to
/// weigh. The first in rank are asked for with plain records, as many of one cost as might pass, all at once; behind them
/// nobody is, so that a large cost is not starved. When one is refused, the line sleeps until that one would pass, and asks
/// again.
///
/// It asks for one more than might pass: whose refusal tells when the next will.
class asking_line final : public subject_line {
 public:
  asking_line(const line_rules& rules, const pace& p) noexcept : subject_line(rules), pace_(p) {}

  // Of several limiters; see asking_order.
  bool is_asking() const noexcept { return asks_out() > 0; }
  bool is_refused() const noexcept { return refused_.has_value() && !inside().empty(); }
  /// Which of the claims keeps its callers waiting; empty if none does.
  std::string refused_by() const;
  /// How often it has asked, and how often because nobody had been refused the last time; and how many passed.
  std::uint64_t rounds() const noexcept { return rounds_; }
  std::uint64_t passes() const noexcept { return passes_; }
  std::uint64_t grants() const noexcept { return grants_; }
  /// Whether the last answer was the store's own.
  bool store_spoke() const noexcept { return store_spoke_; }
  /// Of two that the same claim refused: this one goes by what the other has heard. To be told the time.
  void hear_of(const asking_line& other);
  /// It does not ask, even if it is time, until it is told the time when it no longer holds back.
  void hold(bool back) noexcept { is_held_ = back; }
  bool is_held() const noexcept { return is_held_; }

 private:
  /// The store's word that a cost does not pass before some time: then no larger one does.
  struct refusal {
    decision said;
    std::int64_t cost;
    time heard, until;
  };
  /// What was left in the store, when it last said so.
  struct knowledge {
    std::int64_t remaining;
    time heard;
  };

  void come_in(waiter& w, time now, orders& o) override;
  void withdraw(waiter& w, orders& o) override;
  bool take_over(waiter& from, waiter& newcomer, time now) override;
  void hear(ask& a, time now, orders& o) override;
  void go_on(time now, orders& o) override;
  time next_time() const override;

  bool will_not_pass(const waiter& w, time now) const;
  decision refusal_as_of(time now) const;
  void turn_away(time now, orders& o);
  std::int64_t might_pass(std::int64_t cost, time now) const;

  const pace pace_;
  waiters_by_cost by_cost_;
  waiters_by_patience by_patience_;
  std::optional<refusal> refused_;
  std::optional<knowledge> known_;
  time asked_at_{};                   // the last time
  std::chrono::nanoseconds trip_{0};  // until it was answered
  std::uint64_t rounds_ = 0, passes_ = 0, grants_ = 0;
  bool store_spoke_ = true;
  bool is_held_ = false;
  bool gave_back_ = false;        // since the last time it asked
  bool is_news_ = false;          // the refusal
  bool store_failed_ = false;     // since the last time it was asked
  std::uint64_t asked_upto_ = 0;  // who had come last by then
};

}  // namespace weir::detail
