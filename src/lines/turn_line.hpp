#pragma once

#include "lines/subject_line.hpp"

namespace weir::detail {

/// Of a limiter that books. Each caller's turn is asked for when it comes in. Turns of one cost are the same to the store,
/// whoever booked them: so when one comes, it goes to whoever is first in rank, in exchange for that one's own; and when a
/// caller leaves, the last of them is given back.
class turn_line final : public subject_line {
 public:
  using subject_line::subject_line;

 private:
  void come_in(waiter& w, time now, orders& o) override;
  void withdraw(waiter& w, orders& o) override;
  bool take_over(waiter& from, waiter& newcomer, time now) override;
  void hear(ask& a, time now, orders& o) override;
  void go_on(time now, orders& o) override;
  time next_time() const override;

  static void exchange(waiter& a, waiter& b) noexcept;

  turns_by_time turns_;
  turns_by_cost turns_by_cost_;
  waiters_by_cost with_turns_;
  std::uint64_t turns_heard_ = 0;
};

}  // namespace weir::detail
