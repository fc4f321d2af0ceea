#include "lines/asking_line.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "failure_policy.hpp"
#include "limiter_core.hpp"

namespace weir::detail {
namespace {

using std::chrono::microseconds;

/// The same refusal as of now.
decision after(decision said, microseconds passed) {
  said.at += passed;
  said.retry_after = std::max(microseconds{1}, said.retry_after - passed);
  said.reset_after = std::max(microseconds{0}, said.reset_after - passed);
  return said;
}

/// Of others that are asked with it, for their own costs: as many calls, in units of the check's cost.
std::int64_t in_own_units(const check& c, std::int64_t units, std::int64_t cost) {
  if (cost == c.cost) return units;
  const policies::wide own = policies::wide{units / cost} * c.cost;
  return static_cast<std::int64_t>(std::min(policies::wide{unlimited}, own));
}

/// What is left by the answer. Whose that is, its limit tells.
std::int64_t left_by(const check& c) {
  std::int64_t cost = 0;
  for_each_tier(
      c, [&](const limiter_core& limiter, std::string_view, std::int64_t own, std::size_t tier) {
        const std::int64_t limit = std::visit([](const auto& k) { return k.limit(); },
                                              limiter.tiers[tier]);
        if (limit == c.answer.limit && cost == 0) cost = own;
      });
  return in_own_units(c, c.answer.remaining, cost == 0 ? c.cost : cost);
}

}  // namespace

std::optional<pace> pace_of(const check& c) {
  std::optional<pace> found;
  bool delays = false;
  for_each_tier(
      c, [&](const limiter_core& limiter, std::string_view, std::int64_t cost, std::size_t tier) {
        const policies::kernel& kernel = limiter.tiers[tier];
        if (const auto* window = std::get_if<policies::sliding_window>(&kernel)) {
          if (!found)
            found = pace{in_own_units(c, window->limit(), cost), microseconds(window->window())};
        } else if (const auto* bucket = std::get_if<policies::meter>(&kernel)) {
          delays = delays || bucket->is_spaced();
        }
      });
  if (found) found->one_by_one = delays;
  return found;
}

std::string asking_line::refused_by() const {
  std::string text;
  if (!is_refused()) return text;
  const check& c = *inside().begin()->caller;
  // A refusal's place among all tiers; holds take none.
  std::ptrdiff_t left = std::max<std::ptrdiff_t>(0, refused_->said.tier);
  const auto is_it = [&](const limiter_core& limiter, std::string_view subject, std::int64_t cost) {
    const auto tiers = static_cast<std::ptrdiff_t>(limiter.tiers.size()) -
                       (limiter.has_hold ? 1 : 0);
    left -= tiers;
    if (left >= 0) return false;
    const auto append = [&](const auto& value) {
      text.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    append(&limiter);
    append(cost);
    text += subject;
    return true;
  };
  if (is_it(*c.limiter, c.subject.view(), c.cost)) return text;
  for (const term& t : c.further) {
    if (is_it(*t.limiter, t.subject.view(), t.cost)) break;
  }
  return text;
}

void asking_line::come_in(waiter& w, time now, orders& o) {
  if (will_not_pass(w, now)) return tell(w, refusal_as_of(now), o);
  by_cost_.insert(w);
  by_patience_.insert(w);
}

/// What was sent may be granted: then others have it, or it goes back.
void asking_line::withdraw(waiter& w, orders& o) {
  if (w.asked != nullptr) o.cancels.emplace_back(w.asked, cancel_scope::only_unsent);
}

bool asking_line::take_over(waiter& from, waiter& newcomer, time) {
  if (from.asked == nullptr || from.cost() != newcomer.cost()) return false;
  if (from.asked->is_unwanted) return false;
  pass_on(from, newcomer);
  newcomer.asked->is_inherited = true;
  by_cost_.insert(newcomer);
  by_patience_.insert(newcomer);
  return true;
}

void asking_line::hear(ask& a, time now, orders& o) {
  waiter* const own = a.for_whom;
  if (own != nullptr) own->asked.reset();
  store_spoke_ = !a.ec && a.answer.source == source::store;
  if (a.ec) {
    known_.reset();
    const bool was_cancelled = a.ec == boost::asio::error::operation_aborted;
    if (!was_cancelled) store_failed_ = true;
    // An inherited one was the other's time, not this one's: it is asked for again.
    if (own != nullptr && (was_cancelled || !a.is_inherited)) tell(*own, a.ec, o);
    return;
  }
  if (store_spoke_) trip_ = now - asked_at_;
  if (!store_spoke_ && failure_policy_of(a) == on_failure::open) {
    // All pass, as long as nobody counts.
    known_.reset();
    while (!inside().empty()) tell(*inside().begin(), a.answer, o);
    return;
  }
  // Behind a pause there may be more than is left now.
  if (a.answer.held) {
    known_.reset();
  } else {
    known_ = {left_by(a), now};
  }
  if (!a.answer.allowed) {
    // A pause holds back whatever it costs.
    const std::int64_t cost = a.answer.held ? 0 : a.cost;
    if (refused_) return;
    refused_ = {a.answer, cost, now, now + a.answer.retry_after};
    is_news_ = true;
    return;
  }
  ++grants_;
  const auto first = by_cost_.lower_bound(a.cost, order::of_cost());
  if (first != by_cost_.end() && first->cost() == a.cost) {
    tell(*first, a.answer, o);
  } else if (store_spoke_) {
    gave_back_ = true;
    o.returns.push_back(a.shared_from_this());  // they have all left
  }
}

void asking_line::go_on(time now, orders& o) {
  if (asks_out() > 0) return;
  if (std::exchange(gave_back_, false)) {
    // What the store said is true no more.
    refused_.reset();
    known_.reset();
    is_news_ = false;
  }
  turn_away(now, o);
  if (inside().empty()) return;
  const std::int64_t cost = inside().begin()->cost();
  if (refused_ && (is_held_ || (now < refused_->until && cost >= refused_->cost))) return;
  ++rounds_;
  if (!refused_) ++passes_;
  refused_.reset();
  asked_upto_ = last_arrival();
  asked_at_ = now;
  std::int64_t wanted = might_pass(cost, now) + 1;
  const auto kind = pace_.one_by_one ? check_kind::acquire : check_kind::record;
  for (auto it = inside().begin(); it != inside().end() && it->cost() == cost && wanted > 0;
       --wanted) {
    ask_for(*it++, kind, microseconds{0}, o);
  }
}

/// As far as is known: not in time, however many before it leave.
bool asking_line::will_not_pass(const waiter& w, time now) const {
  return refused_ && now < refused_->until && w.latest < refused_->until &&
         w.cost() >= refused_->cost;
}

decision asking_line::refusal_as_of(time now) const {
  decision d = after(refused_->said, std::chrono::floor<microseconds>(now - refused_->heard));
  if (is_held_ && now >= refused_->until) {
    // Others are before it. As long as one takes at the window's own pace, at the least.
    const auto one = policies::wide{pace_.window.count()} * refused_->cost / pace_.limit;
    d.retry_after = std::max(d.retry_after, microseconds(static_cast<std::int64_t>(one)));
  }
  return d;
}

void asking_line::hear_of(const asking_line& other) {
  if (!refused_ || !other.refused_) return;
  const auto tier = refused_->said.tier;
  const std::int64_t cost = refused_->cost;
  refused_ = other.refused_;
  refused_->said.tier = tier;
  refused_->cost = cost;
  is_news_ = true;
}

/// Those who will not pass in time, and those whose time is over after they have been there for a round of questions.
void asking_line::turn_away(time now, orders& o) {
  const bool failed = std::exchange(store_failed_, false);
  if (std::exchange(is_news_, false)) {
    const auto first = by_cost_.lower_bound(refused_->cost, order::of_cost());
    for (auto it = first; it != by_cost_.end();) {
      waiter& w = *it++;
      if (w.latest < refused_->until) tell(w, refusal_as_of(now), o);
    }
  }
  for (auto it = by_patience_.begin(); it != by_patience_.end() && it->latest <= now;) {
    waiter& w = *it++;
    if (refused_ && (is_held_ || w.latest < refused_->until)) {
      tell(w, refusal_as_of(now), o);
    } else if (failed || w.goes.arrival <= asked_upto_) {
      tell(w, error::timed_out, o);
    }
  }
}

/// How many of that cost could pass at the most. What is used wanes by a whole limit in each window at the most, unless
/// the limit was larger before, or somebody resets the subject; also while question and answer travel, which takes as long
/// as the last time, or (with some reserve) twice that.
std::int64_t asking_line::might_pass(std::int64_t cost, time now) const {
  if (pace_.one_by_one) return 1;
  policies::wide units = pace_.limit;
  if (known_) {
    const auto passed = std::chrono::ceil<microseconds>(now - known_->heard + 2 * trip_);
    const auto waned = policies::wide{pace_.limit} * passed.count();
    const std::int64_t window = pace_.window.count();
    units = std::min(units, known_->remaining + (waned + window - 1) / window);
  }
  constexpr policies::wide plenty = std::int64_t{1} << 40;
  return static_cast<std::int64_t>(std::min(plenty, units / cost));
}

asking_line::time asking_line::next_time() const {
  if (asks_out() > 0 || inside().empty()) return time::max();
  const time patience = by_patience_.begin()->latest;
  return is_held_ ? patience : std::min(refused_->until, patience);
}

}  // namespace weir::detail
