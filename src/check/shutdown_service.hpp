#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <memory>

#include "check/roster.hpp"

namespace weir::detail {

/// Something that has timers, sockets, strands or executors in an execution context, or holds
/// callers' handlers outside any queue of Asio's.
class shutdown_listener {
 public:
  /// The context is being destroyed, and no other thread uses this object. It destroys all of that
  /// now: afterwards it would touch freed memory. It drops the handlers, as every I/O object does;
  /// without that, a handler which owns the last handle to its store would never be freed. Later
  /// there come only calls that release something, and the destructor.
  virtual void context_shut_down() noexcept = 0;

 protected:
  ~shutdown_listener() = default;
};

/// Tells the listeners of an execution context that it is being destroyed. These are the stores,
/// which pass it on.
class shutdown_service final : public boost::asio::execution_context::service {
 public:
  using key_type = shutdown_service;
  static inline boost::asio::execution_context::id id;

  explicit shutdown_service(boost::asio::execution_context& context)
      : boost::asio::execution_context::service(context) {}

  static void add(const boost::asio::any_io_executor& executor,
                  std::weak_ptr<shutdown_listener> listener) {
    boost::asio::execution_context& context = boost::asio::query(executor,
                                                                 boost::asio::execution::context);
    boost::asio::use_service<shutdown_service>(context).listeners_.add(std::move(listener));
  }

 private:
  void shutdown() override {
    // Each of them is kept until all have been told: dropping the handlers of one may drop the last
    // handle of another.
    for (const auto& listener : listeners_.present()) listener->context_shut_down();
  }

  roster<shutdown_listener> listeners_;
};

}  // namespace weir::detail
