#include "limiter/lease_schedule.hpp"

namespace weir::detail {

void lease_schedule::add(number lease, short_text subject, time sent) {
  entry& e = entries_[lease];
  e.lease = lease;
  e.subject = std::move(subject);
  e.good_until = sent + length_;
  schedule(e, sent + length_ / 3);
}

lease_schedule::entry* lease_schedule::find(number lease) {
  const auto found = entries_.find(lease);
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<lease_schedule::entry> lease_schedule::remove(number lease) {
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return std::nullopt;
  std::optional<entry> removed(std::move(found->second));
  entries_.erase(found);
  return removed;
}

lease_schedule::entry* lease_schedule::next(time now) {
  entry* const e = agenda_.first_due(now);
  if (e == nullptr) return nullptr;
  if (e->good_until <= now) {
    agenda_.put(*e, time::max());
    e->stands = standing::lost;
  } else {
    schedule(*e, e->good_until);  // until the renewal is answered, only the loss can be due
  }
  return e;
}

bool lease_schedule::answered(number lease, outcome what, time sent, time now) {
  entry* e = find(lease);
  if (e == nullptr) return false;
  const bool was_held = e->stands == standing::held;
  switch (what) {
    case outcome::kept:
      if (was_held) {
        e->good_until = sent + length_;
        schedule(*e, sent + length_ / 3);
      }
      break;
    case outcome::gone:
      agenda_.put(*e, time::max());
      e->stands = standing::gone;
      return was_held;
    case outcome::unclear:
      if (was_held) schedule(*e, now + length_ / 10);
      break;
  }
  return false;
}

std::optional<lease_schedule::open_leave> lease_schedule::leave_failed(open_leave leave,
                                                                       bool was_connection_lost,
                                                                       time now) {
  if (now >= leave.good_until) return std::nullopt;
  if (was_connection_lost && leave.losses++ < most_losses) return leave;
  const time again = now + length_ / 10;
  if (again < leave.good_until && leaves_.size() < most_leaves) {
    leaves_.emplace(again, std::move(leave));
  }
  return std::nullopt;
}

std::optional<lease_schedule::open_leave> lease_schedule::next_leave(time now) {
  if (leaves_.empty() || leaves_.begin()->first > now) return std::nullopt;
  return std::move(leaves_.extract(leaves_.begin()).mapped());
}

}  // namespace weir::detail
