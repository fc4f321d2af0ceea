#include "check/store_backend.hpp"

#include "check/limiter_spec.hpp"

namespace weir::detail {

void store_backend::close_limiters(const std::shared_ptr<void>& hold) {
  for (const auto& limiter : limiters_.close()) limiter->store_closes(limiter, hold);
}

void store_backend::end_limiters() noexcept {
  // Each of them is kept until all have been told: dropping the handlers of one may drop the last
  // handle of another.
  for (const auto& limiter : limiters_.present()) limiter->context_shut_down();
}

bool is_store_failure(const error_code& ec) noexcept {
  if (ec == condition::invalid_input || ec == error::store_closed) return false;
  // This process asks more than it may have pending: whatever the store says, to let in what comes
  // beyond would lift the limit just when it matters.
  if (ec == error::overloaded) return false;
  // One of our own errors at all, and no cancellation.
  return ec == condition::not_counted || ec == condition::may_have_counted;
}

}  // namespace weir::detail
