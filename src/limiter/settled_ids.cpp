#include "limiter/settled_ids.hpp"

#include <atomic>
#include <chrono>
#include <memory>

#include "base/random.hpp"

namespace weir::detail {

settled_ids& settled_ids::of_process() {
  // Never destroyed: checks may end during the destruction of static objects.
  static std::atomic<settled_ids*> of_this{nullptr};
  settled_ids* known = of_this.load(std::memory_order_acquire);
  while (known == nullptr || known->salt_ != fork_salt()) {
    auto fresh = std::make_unique<settled_ids>();
    fresh->salt_ = fork_salt();
    if (of_this.compare_exchange_weak(known, fresh.get(), std::memory_order_acq_rel)) {
      known = fresh.release();
    }
  }
  return *known;
}

bool settled_ids::contains(std::uint64_t id, policies::instant now) {
  const std::lock_guard lock(mutex_);
  return ids_.has(id, now);
}

void settled_ids::add(std::uint64_t id, policies::instant now) {
  const std::lock_guard lock(mutex_);
  // Enough slots for each added id that expired ids leave soon after their end.
  ids_.tidy(now, 32);
  ids_.add(id, now + policies::shortest_marker_life);  // unless it is full
}

policies::instant settled_ids::read_steady_clock() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace weir::detail
