// What cool-downs do to the callers of acquire_all.
#include <algorithm>

#include "check/limiter_spec.hpp"
#include "waiting/max_wait.hpp"
#include "waiting/sleepers.hpp"

namespace weir::waiting {

using detail::acquire_request;
using detail::check;
using detail::limiter_spec;

namespace {

using std::chrono::microseconds;

/// Calls f(limiter, subject) for each limiter of the check that has cool-downs.
template <class F>
void for_each_cooled(const check& c, F&& f) {
  detail::for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view subject) {
    if (limiter.has_cool_down) f(limiter, subject);
  });
}

std::size_t hash_of(std::string_view subject) noexcept {
  return std::hash<std::string_view>{}(subject);
}

/// The end of the last cool-down that is known of the check's limiters; zero: none.
check::steady_time cool_down_of(const check& c) {
  check::steady_time until{};
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    until = std::max(until, limiter.cool_down_until(subject));
  });
  return until;
}

}  // namespace

void sleepers::cool_down_began(const limiter_spec& limiter, std::string_view subject) {
  const std::lock_guard lock(mutex_);
  const cooled key{&limiter, hash_of(subject)};
  std::vector<sleeper*> concerned;  // apart, because remove() erases from the set
  for (auto it = by_cooled_.lower_bound({key, nullptr}); it != by_cooled_.end(); ++it) {
    if (it->first != key) break;
    if (it->second->pending == nullptr) concerned.push_back(it->second);
  }
  // In the order of their reservations. The new ones keep it, because those behind a replaced one
  // are replaced, too.
  std::sort(concerned.begin(), concerned.end(),
            [](const sleeper* a, const sleeper* b) { return a->goes_before(*b); });
  const time now = std::chrono::steady_clock::now();
  results out;
  bool is_one_replaced = false;
  for (sleeper* s : concerned) {
    // One that the cool-down outlasts is refused: those behind it keep their reservations.
    const bool is_outlasted = cool_down_of(s->caller) > s->latest;
    const std::size_t before = pending_requests_;
    const bool stays = obey_cool_downs(*s, now, out);
    is_one_replaced |= pending_requests_ > before && !is_outlasted;
    if (stays && is_one_replaced && !from_fallback(s->caller)) replace(*s, now, out);
  }
  conclude(out);
}

// ---- under the mutex

void sleepers::enter_by_cooled(sleeper& s) {
  for_each_cooled(s.caller, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.insert({{&limiter, hash_of(subject)}, &s});
  });
}

void sleepers::leave_by_cooled(sleeper& s) {
  for_each_cooled(s.caller, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.erase({{&limiter, hash_of(subject)}, &s});
  });
}

/// If the reservation lies in a known cool-down, requests another one, or postpones or refuses it:
/// see reservation_queue::postpone(). True if the reservation stays as it is.
bool sleepers::obey_cool_downs(sleeper& s, time now, results& out) {
  const time until = cool_down_of(s.caller);
  if (until <= now || until <= s.due) return true;
  if (s.known_cool_down + same_end < until && !from_fallback(s.caller)) {
    replace(s, now, out);
  } else if (until > s.latest) {
    refuse(s, now, until);
    out.done.push_back(remove(s, out));
  } else {
    agenda_.put(s, until);
  }
  return false;
}

void sleepers::refuse(sleeper& s, time now, time until) {
  check& c = s.caller;
  give_back(c, s.group);
  decision& d = c.answer;
  refuse_in_cool_down(d, d.delay - std::chrono::floor<microseconds>(s.reserved - now),
                      std::chrono::ceil<microseconds>(until - now),
                      detail::as<acquire_request>(c).max_wait);
}

void sleepers::replace(sleeper& s, time now, results& out) {
  give_back(s.caller, s.group);
  make_request(s, max_wait_left(detail::as<acquire_request>(s.caller).max_wait, s.latest, now),
               false, out);
  s.known_cool_down = cool_down_of(s.caller);
  agenda_.put(s, time::max());
}

}  // namespace weir::waiting
