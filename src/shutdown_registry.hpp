#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>
#include <mutex>

namespace weir::detail {

/// Something that holds callers' handlers outside any queue of Asio's.
class shutdown_listener : public boost::intrusive::list_base_hook<> {
 public:
  virtual void context_shut_down() noexcept = 0;

 protected:
  ~shutdown_listener() = default;
};

/// Tells the listeners of an execution context that it is being destroyed. They drop their handlers then, as every I/O
/// object does; without that, a handler which owns the last handle to its store would never be freed.
class shutdown_registry final : public boost::asio::execution_context::service {
 public:
  using key_type = shutdown_registry;
  static inline boost::asio::execution_context::id id;

  explicit shutdown_registry(boost::asio::execution_context& context)
      : boost::asio::execution_context::service(context) {}

  void add(shutdown_listener& s) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(s);
  }
  void remove(shutdown_listener& s) noexcept {
    const std::lock_guard lock(mutex_);
    if (s.is_linked()) listeners_.erase(listeners_.iterator_to(s));
  }

 private:
  void shutdown() override {
    // Dropping handlers may destroy listeners, which remove themselves: so one at a time, outside the lock.
    for (;;) {
      shutdown_listener* next = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (listeners_.empty()) return;
        next = &listeners_.front();
        listeners_.pop_front();
      }
      next->context_shut_down();
    }
  }

  std::mutex mutex_;
  boost::intrusive::list<shutdown_listener> listeners_;
};

}  // namespace weir::detail
