#include "check/store_backend.hpp"

#include "check/limiter_spec.hpp"
#include "limiter/lease_keeper.hpp"
#include "waiting/acquire_queue.hpp"

namespace weir::detail {

void store_backend::close_limiters(const std::shared_ptr<void>& hold) {
  for (const auto& core : limiters_.close()) {
    if (core->line != nullptr) core->line->close(core, hold);
    if (core->leases != nullptr) core->leases->close();
  }
}

void store_backend::end_limiters() noexcept {
  // Each of them is kept until all have been told: dropping the handlers of one may drop the last handle of another.
  for (const auto& core : limiters_.present()) {
    if (core->line != nullptr) core->line->context_shut_down();
    if (core->leases != nullptr) core->leases->context_shut_down();
  }
}

}  // namespace weir::detail
