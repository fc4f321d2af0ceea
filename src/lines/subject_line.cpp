#include "lines/subject_line.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

namespace weir::detail {

void subject_line::arrive(check& c, std::uint64_t arrival, time now, orders& o) {
  auto& w = *new waiter(c, rank(now, arrival, c.priority, rules_.ageing), now + c.max_wait);
  c.place = &w;
  last_arrival_ = arrival;
  if (inside_count_ < rules_.max_waiting) {
    let_in(w);
    come_in(w, now, o);
  } else {
    overflow(w, now, o);
  }
  fill_up(now, o);
}

void subject_line::overflow(waiter& w, time now, orders& o) {
  switch (rules_.overflow) {
    case on_overflow::refuse_new:
      break;
    case on_overflow::drop_oldest:
      return replace(inside_by_arrival_.front(), w, now, o);
    case on_overflow::drop_lowest_priority: {
      waiter& last = *inside_.rbegin();
      if (w.goes < last.goes) return replace(last, w, now, o);
      break;
    }
    case on_overflow::block:
      if (outside_count_ >= max_outside) break;
      w.stands = waiter::where::outside;
      ++outside_count_;
      outside_.insert(w);
      outside_by_patience_.insert(w);
      return;
  }
  tell(w, error::overloaded, o);
}

void subject_line::replace(waiter& dropped, waiter& newcomer, time now, orders& o) {
  const bool has_place = take_over(dropped, newcomer, now);
  if (!has_place) withdraw(dropped, o);
  tell(dropped, error::overloaded, o);
  let_in(newcomer);
  if (!has_place) come_in(newcomer, now, o);
}

bool subject_line::take_over(waiter&, waiter&, time) { return false; }

void subject_line::let_in(waiter& w) {
  w.stands = waiter::where::inside;
  ++inside_count_;
  inside_.insert(w);
  inside_by_arrival_.push_back(w);
}

/// Those outside come in as far as there is room; the line goes on, which may make more.
void subject_line::fill_up(time now, orders& o) {
  do {
    while (inside_count_ < rules_.max_waiting && outside_count_ > 0) {
      waiter& w = *outside_.begin();
      --outside_count_;
      w.by_rank.unlink();
      w.by_patience.unlink();
      let_in(w);
      come_in(w, now, o);
    }
    go_on(now, o);
  } while (inside_count_ < rules_.max_waiting && outside_count_ > 0);
}

void subject_line::leave(check& c, cancel_scope scope, time now, orders& o) {
  waiter& w = *c.place;
  if (scope == cancel_scope::only_unsent && w.asked != nullptr) {
    // Whether it was sent, the store knows. If not, the answer is that it was cancelled. A turn is booked.
    if (w.asked->is_turn) return;
    w.asked->is_unwanted = true;
    o.cancels.emplace_back(w.asked, scope);
    return;
  }
  withdraw(w, o);
  tell(w, boost::asio::error::operation_aborted, o);
  fill_up(now, o);
}

void subject_line::answered(ask& a, time now, orders& o) {
  --asks_out_;
  hear(a, now, o);
  fill_up(now, o);
}

void subject_line::on_time(time now, orders& o) {
  while (!outside_by_patience_.empty() && outside_by_patience_.begin()->latest <= now) {
    tell(*outside_by_patience_.begin(), error::overloaded, o);
  }
  fill_up(now, o);
}

subject_line::time subject_line::wakeup() const {
  const time next = next_time();
  if (outside_by_patience_.empty()) return next;
  return std::min(next, outside_by_patience_.begin()->latest);
}

void subject_line::ask_for(waiter& w, check_kind kind, std::chrono::microseconds max_wait,
                           orders& o) {
  o.starts.push_back(ask::make(w, kind, max_wait, *this));
  ++asks_out_;
}

void subject_line::pass_on(waiter& from, waiter& to) noexcept {
  to.asked = std::move(from.asked);
  to.asked->for_whom = &to;
}

void subject_line::tell(waiter& w, const decision& answer, orders& o) {
  w.caller->answer = answer;
  finish(w, o);
}

void subject_line::tell(waiter& w, error_code ec, orders& o) {
  w.caller->ec = ec;
  finish(w, o);
}

void subject_line::finish(waiter& w, orders& o) {
  if (w.stands == waiter::where::inside) --inside_count_;
  if (w.stands == waiter::where::outside) --outside_count_;
  if (w.asked != nullptr) w.asked->for_whom = nullptr;
  check& c = *w.caller;
  c.place = nullptr;
  c.stage = check_stage::done;
  o.told.push_back(c);
  delete &w;
}

void subject_line::abandon(check_list& dropped) {
  orders o;
  while (!inside_.empty()) finish(*inside_.begin(), o);
  while (!outside_.empty()) finish(*outside_.begin(), o);
  dropped.splice(dropped.end(), o.told);
}

}  // namespace weir::detail
