#pragma once

#include <memory>

#include "check/flight.hpp"

namespace weir::detail {

/// Receives the checks that a store has answered. It hides failure policies, retry jitter and the
/// waiting of acquire_all from the store. Thread-safe.
class completion_sink {
 public:
  virtual ~completion_sink() = default;

  /// Takes a check that has its answer or its error. The call may free the check, and with it the
  /// last handle of the store.
  virtual void complete(check& c) = 0;
  virtual void complete(check_list&& done) = 0;

  /// Takes over a validated acquire_all, which waits here. It is not finished inside the call,
  /// unless the context is gone.
  virtual void wait(check& c) = 0;
  /// Cancels such a check, if it is not finished yet.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  /// Called when the store closes: ends all waiting and gives the reservations back. Keeps
  /// `keep_alive` until the last one has been started in the store.
  virtual void close(const std::shared_ptr<void>& keep_alive) = 0;
  /// See shutdown_listener::context_shut_down().
  virtual void context_shut_down() noexcept = 0;
};

}  // namespace weir::detail
