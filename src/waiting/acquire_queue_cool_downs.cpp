// What an acquire_queue knows of cool-downs, and tells its lines.
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"
#include "waiting/acquire_queue.hpp"

namespace weir::waiting {

using detail::delivery;

void acquire_queue::cool_down(const core_ptr& core, std::string_view subject,
                              std::chrono::microseconds left) {
  orders out;
  {
    const std::lock_guard lock(mutex_);
    start(core);
    if (alarm_.is_stopped()) return;
    const time now = clock_now();
    if (cool_downs_.note(subject, now + left, now, rules_.same_end)) {
      last_cool_down_ = last_arrival_;
    }
    const auto found = entries_.find(subject);
    if (found == entries_.end()) return;
    found->second->queue.cool_down(now + left, now, out);
    update(core, *found->second, out);
  }
  carry_out(core, out, delivery::post);
}

void acquire_queue::forget_cool_down(std::string_view subject) {
  const std::lock_guard lock(mutex_);
  cool_downs_.forget(subject);
  const auto found = entries_.find(subject);
  if (found != entries_.end()) found->second->queue.forget_cool_down();
}

/// Calls f(queue, now, orders) for each line of this resource and subject.
template <class F>
void acquire_queue::for_joint_lines(const core_ptr& core, std::string_view subject, F f) {
  orders out;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped() || cooled_lines_.empty()) return;
    const cooled key{core->resource_id, hash_(subject)};
    std::vector<line_entry*> concerned;  // apart, because the end of an event may free a line
    for (auto it = cooled_lines_.lower_bound({key, nullptr}); it != cooled_lines_.end(); ++it) {
      if (it->first != key) break;
      concerned.push_back(it->second);
    }
    for (line_entry* entry : concerned) {
      f(entry->queue, clock_now(), out);
      update(core, *entry, out);
    }
  }
  carry_out(core, out, delivery::post);
}

void acquire_queue::joint_cool_down(const core_ptr& core, std::string_view subject,
                                    std::chrono::microseconds left) {
  for_joint_lines(core, subject, [left](reservation_queue& queue, time now, orders& out) {
    queue.cool_down(now + left, now, out);
  });
}

void acquire_queue::forget_joint_cool_down(const core_ptr& core, std::string_view subject) {
  // The store's answers name a cool-down of another limiter of the line again.
  for_joint_lines(core, subject,
                  [](reservation_queue& queue, time, orders&) { queue.forget_cool_down(); });
}

}  // namespace weir::waiting
