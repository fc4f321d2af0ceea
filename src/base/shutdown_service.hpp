#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <memory>

#include "base/roster.hpp"

namespace weir::detail {

/// An object that has timers, sockets, strands or executors of an execution context, or holds
/// handlers outside Asio's own queues.
class shutdown_listener {
 public:
  /// Called while the context is destroyed; no other thread uses this object then. It must destroy
  /// all these objects now, because later they would touch freed memory, and drop the handlers:
  /// a handler that owns the last handle of its store would otherwise never be freed. Afterwards
  /// only releasing calls and the destructor follow.
  virtual void context_shut_down() noexcept = 0;

 protected:
  ~shutdown_listener() = default;
};

/// Tells the listeners, which are the stores, that their execution context is being destroyed.
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
    // present() keeps all of them alive in the loop: dropping the handlers of one may drop the last
    // handle of another.
    for (const auto& listener : listeners_.present()) listener->context_shut_down();
  }

  roster<shutdown_listener> listeners_;
};

}  // namespace weir::detail
