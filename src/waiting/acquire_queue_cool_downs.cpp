// What an acquire_queue knows of cool-downs, and tells its lines.
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"
#include "waiting/acquire_queue.hpp"

namespace weir::waiting {

using detail::delivery;

bool acquire_queue::cool_down(const core_ptr& core, std::string_view subject,
                              std::chrono::microseconds left) {
  orders out;
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    start(core);
    if (alarm_.is_stopped()) return false;
    const time now = clock_now();
    is_news = cool_downs_.note(subject, now + left, now, rules_.same_end);
    if (is_news) last_cool_down_ = last_arrival_;
    const auto found = entries_.find(subject);
    if (found == entries_.end()) return is_news;
    found->second->queue.cool_down(now + left, now, out);
    update(core, *found->second, out);
  }
  carry_out(core, out, delivery::post);
  return is_news;
}

void acquire_queue::forget_cool_down(std::string_view subject) {
  const std::lock_guard lock(mutex_);
  cool_downs_.forget(subject);
  const auto found = entries_.find(subject);
  if (found != entries_.end()) found->second->queue.forget_cool_down();
}

/// Calls f(queue, now, orders) for each line that has this limiter and subject.
template <class F>
void acquire_queue::for_joint_lines(const core_ptr& core, std::string_view subject, F f) {
  orders out;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    for (line_entry* entry : all_lines()) {
      if (!entry->obeys(*core, subject)) continue;
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
