#pragma once

#include "check/check_list.hpp"

namespace weir::detail {

/// Where a store hands over the checks that it is done with. What happens to them then (failure
/// policies, retry jitter, sleeping until a reservation comes) is no business of the store. Any
/// thread may call.
class completion_sink {
 public:
  virtual ~completion_sink() = default;

  /// The check has its answer or its error. It may be gone afterwards, and with it the last handle
  /// of the store.
  virtual void complete(check& c) = 0;
  virtual void complete(check_list&& done) = 0;

  /// Drops the caller of a check that was handed over.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  /// The store is closing: sleepers end, and their reservations go back.
  virtual void close() = 0;
  /// As shutdown_listener's.
  virtual void context_shut_down() noexcept = 0;
};

}  // namespace weir::detail
