// What a waiting_room knows of cool-downs, and tells its lines.
#include <algorithm>

#include "check/limiter_spec.hpp"
#include "waiting/waiting_room.hpp"

namespace weir::waiting {

/// The lines of a resource and subject. A copy, because the end of an event may free a line.
std::vector<line_entry*> waiting_room::lines_of(std::uint64_t key) const {
  std::vector<line_entry*> all;
  for (auto it = cooled_lines_.lower_bound({key, nullptr}); it != cooled_lines_.end(); ++it) {
    if (it->first != key) break;
    all.push_back(it->second);
  }
  return all;
}

void waiting_room::cool_down(const core_ptr& core, std::string_view subject,
                             std::chrono::microseconds left) {
  room_orders out;
  {
    const std::lock_guard lock(mutex_);
    if (!alarm_.is_started()) return;  // nobody is here
    const std::uint64_t key = cool_downs_.key_of(core->resource_id, subject);
    const time now = clock_now();
    if (cool_downs_.note(key, now + left, now, same_end)) last_cool_down_ = last_arrival_;
    for (line_entry* entry : lines_of(key)) {
      entry->line.cool_down(now + left, now, out);
      update(*entry, out);
    }
  }
  carry_out(core, out);
}

std::size_t waiting_room::waiting() const {
  std::size_t sum = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& [entry, owner] : entries_) sum += entry->line.waiting();
  return sum;
}

void waiting_room::forget_cool_down(const core_ptr& core, std::string_view subject) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = cool_downs_.key_of(core->resource_id, subject);
  cool_downs_.forget(key);
  // The store's answers name a cool-down of another limiter of the line again.
  for (line_entry* entry : lines_of(key)) entry->line.forget_cool_down();
}

/// The end of a cool-down that may have begun while the check was at the store; time{}: none.
waiting_room::time waiting_room::cool_down_of(const detail::check& c) const {
  time until{};
  if (detail::as<detail::acquire_request>(c).arrival > last_cool_down_) return until;
  detail::for_each_limiter(c, [&](const detail::limiter_spec& limiter, std::string_view subject) {
    const std::uint64_t key = cool_downs_.key_of(limiter.resource_id, subject);
    until = std::max(until, cool_downs_.until(key));
  });
  return until;
}

}  // namespace weir::waiting
