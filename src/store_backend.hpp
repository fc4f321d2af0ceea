#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <span>
#include <string_view>

#include "shutdown_registry.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// What a store does for limiters. All functions may be called from any thread.
class store_backend {
 public:
  virtual ~store_backend() = default;

  /// Takes the check over. It has been validated. Must not finish it inside the call.
  virtual void start(check& c) = 0;

  /// The same for several, in this order: those that can travel together do.
  virtual void start_all(std::span<check* const> checks) {
    for (check* c : checks) start(*c);
  }

  /// Drops the waiter of a started check, if it is not done yet.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  virtual void close() = 0;

  /// Empty once its context is gone.
  virtual boost::asio::any_io_executor get_executor() const noexcept = 0;

  /// What every key begins with.
  virtual std::string_view key_prefix() const noexcept = 0;

  /// What the limiters have on the store's executor. They are told of the context's end by the store.
  virtual roster<shutdown_listener>& guests() noexcept { return guests_; }

 private:
  roster<shutdown_listener> guests_;
};

}  // namespace weir::detail
