#pragma once

#include <memory>

#include "check/check_list.hpp"

namespace weir::detail {

/// Receives the checks that a store has finished. The rest (failure policies, retry jitter,
/// sleeping until a reservation is due) is hidden from the store. Thread-safe.
class completion_sink {
 public:
  virtual ~completion_sink() = default;

  /// Takes a check that has its answer or its error. The call may free the check, and with it the
  /// last handle of the store.
  virtual void complete(check& c) = 0;
  virtual void complete(check_list&& done) = 0;

  /// Cancels a check that was handed over.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  /// Called when the store closes: ends sleeping checks and gives their reservations back. Keeps
  /// `keep_alive` while one of them may still get another.
  virtual void close(const std::shared_ptr<void>& keep_alive) = 0;
  /// See shutdown_listener::context_shut_down().
  virtual void context_shut_down() noexcept = 0;
};

}  // namespace weir::detail
