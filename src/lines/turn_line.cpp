#include "lines/turn_line.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

namespace weir::detail {
namespace {

using std::chrono::microseconds;

/// What is left of a caller's patience. Who has waited outside asks with a little less, at most a 64th of the whole, so that
/// those who come in together ask alike, and travel together.
microseconds patience_left(const waiter& w, check::steady_time now) {
  const microseconds whole = w.caller->max_wait;
  const auto left = std::chrono::floor<microseconds>(w.latest - now);
  if (left >= whole) return whole;
  const microseconds step = std::max(microseconds{1}, whole / 64);
  return std::max(microseconds{0}, left - left % step);
}

/// What the turn's decision says to the one who has it: `at` is when that one's waiting began.
decision as_told_to(const waiter& w, const ask& turn) {
  decision d = turn.answer;
  const time_point begins = d.at + d.delay, idle = d.at + d.reset_after;
  const auto waited = std::chrono::duration_cast<microseconds>(turn.due() - w.heard);
  d.delay = std::max(microseconds{0}, waited);
  d.at = begins - d.delay;
  d.reset_after = std::max(microseconds{0}, idle - d.at);
  return d;
}

}  // namespace

void turn_line::come_in(waiter& w, time now, orders& o) {
  ask_for(w, check_kind::acquire, patience_left(w, now), o);
}

void turn_line::exchange(waiter& a, waiter& b) noexcept {
  std::swap(a.asked, b.asked);
  a.asked->for_whom = &a;
  b.asked->for_whom = &b;
}

void turn_line::withdraw(waiter& w, orders& o) {
  if (w.asked == nullptr) return;  // outside
  if (!w.asked->is_turn) {
    w.asked->for_whom = nullptr;
    o.cancels.emplace_back(w.asked, cancel_scope::any);
    return;
  }
  const auto of_this_cost = turns_by_cost_.upper_bound(w.cost(), order::of_cost_and_time());
  ask& last = *std::prev(of_this_cost);
  if (last.for_whom != &w) exchange(w, *last.for_whom);
  last.by_time.unlink();
  last.by_cost.unlink();
  // If it was booked in this process: that goes on alone.
  if (last.answer.source != source::fallback) o.returns.push_back(w.asked);
}

bool turn_line::take_over(waiter& from, waiter& newcomer, time now) {
  if (from.asked == nullptr || from.cost() != newcomer.cost()) return false;
  ask& a = *from.asked;
  if (a.is_unwanted) return false;
  if (a.is_turn) {
    if (a.due() > newcomer.latest) return false;
    newcomer.heard = now;
    with_turns_.insert(newcomer);
  } else {
    if (a.max_wait != newcomer.caller->max_wait) return false;
    a.is_inherited = true;
  }
  pass_on(from, newcomer);
  return true;
}

void turn_line::hear(ask& a, time now, orders& o) {
  waiter* const w = a.for_whom;
  if (w == nullptr) {
    const bool holds = !a.ec && a.answer.allowed && a.answer.source != source::fallback;
    if (holds) o.returns.push_back(a.shared_from_this());
    return;
  }
  if (a.ec && a.is_inherited && a.ec != boost::asio::error::operation_aborted) {
    // That was the other's time, not this one's.
    a.for_whom = nullptr;
    come_in(*w, now, o);
  } else if (a.ec) {
    tell(*w, a.ec, o);
  } else if (!a.answer.allowed) {
    // Whoever asked with a little less would wait for that much longer the next time.
    const microseconds less = w->caller->max_wait - a.max_wait;
    a.answer.retry_after = std::max(microseconds{1}, a.answer.retry_after - less);
    tell(*w, a.answer, o);
  } else {
    a.is_turn = true;
    a.deadline = now + a.answer.delay;
    a.number = ++turns_heard_;
    turns_.insert(a);
    turns_by_cost_.insert(a);
    w->heard = now;
    w->latest = now + a.max_wait;
    with_turns_.insert(*w);
  }
}

void turn_line::go_on(time now, orders& o) {
  while (!turns_.empty() && turns_.begin()->due() <= now) {
    ask& turn = *turns_.begin();
    waiter& owner = *turn.for_whom;
    waiter& first = *with_turns_.lower_bound(turn.cost, order::of_cost());
    if (&first != &owner && first.asked->due() <= owner.latest) exchange(first, owner);
    waiter& goes = *turn.for_whom;
    turn.by_time.unlink();
    turn.by_cost.unlink();
    tell(goes, as_told_to(goes, turn), o);
  }
}

turn_line::time turn_line::next_time() const {
  return turns_.empty() ? time::max() : turns_.begin()->due();
}

}  // namespace weir::detail
