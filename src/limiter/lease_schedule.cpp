#include "limiter/lease_schedule.hpp"

#include <algorithm>

namespace weir::detail {

void lease_schedule::schedule(number lease, entry& e, time when) {
  agenda_.erase({e.due, lease});
  e.due = std::min(when, e.good_until);
  agenda_.emplace(e.due, lease);
}

void lease_schedule::add(number lease, short_text subject, time sent) {
  entry& e = entries_[lease];
  e.subject = std::move(subject);
  e.good_until = sent + length_;
  schedule(lease, e, sent + length_ / 3);
}

lease_schedule::entry* lease_schedule::find(number lease) {
  const auto found = entries_.find(lease);
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<lease_schedule::entry> lease_schedule::remove(number lease) {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return std::nullopt;
  agenda_.erase({found->second.due, lease});
  std::optional<entry> removed(std::move(found->second));
  entries_.erase(found);
  return removed;
}

lease_schedule::time lease_schedule::wakeup() const noexcept {
  return agenda_.empty() ? time::max() : agenda_.begin()->first;
}

std::optional<lease_schedule::event> lease_schedule::next(time now) {
  if (wakeup() > now) return std::nullopt;
  const number lease = agenda_.begin()->second;
  entry& e = entries_.at(lease);
  if (e.good_until <= now) {
    agenda_.erase({e.due, lease});
    e.stands = standing::lost;
    return event{lease, true};
  }
  schedule(lease, e, e.good_until);  // until the renewal is answered, only the loss can be due
  return event{lease, false};
}

bool lease_schedule::answered(number lease, outcome what, time sent, time now) {
  entry* e = find(lease);
  if (e == nullptr) return false;
  const bool was_held = e->stands == standing::held;
  switch (what) {
    case outcome::kept:
      if (was_held) {
        e->good_until = sent + length_;
        schedule(lease, *e, sent + length_ / 3);
      }
      break;
    case outcome::gone:
      agenda_.erase({e->due, lease});
      e->stands = standing::gone;
      return was_held;
    case outcome::unclear:
      if (was_held) schedule(lease, *e, now + length_ / 10);
      break;
  }
  return false;
}

}  // namespace weir::detail
