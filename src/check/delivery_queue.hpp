#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <mutex>
#include <utility>

#include "check/check_list.hpp"
#include "check/delivery_batch.hpp"

namespace weir::detail {

/// Delivers checks that a store finishes one by one, on any thread: the first one posts a function,
/// and those that are finished before it runs go with it. Only for checks with at_store: others
/// need no function on the store's executor.
class delivery_queue : public std::enable_shared_from_this<delivery_queue> {
 public:
  /// The call may free the check, and with it the last handle of the store.
  void add(const boost::asio::any_io_executor& executor, check& c) {
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(c);
      if (std::exchange(is_posted_, true)) return;
    }
    post(executor);
  }

 private:
  /// So many checks go with one function. More would keep a second thread of the context idle, and
  /// other work waiting.
  static constexpr int most = 64;

  class turn {
   public:
    turn(std::shared_ptr<delivery_queue> queue, const boost::asio::any_io_executor& executor)
        : queue_(std::move(queue)), executor_(executor) {}
    turn(turn&& other) noexcept = default;
    turn& operator=(turn&&) = delete;

    // The queue is still there only if the context shut down before the function ran.
    ~turn() {
      if (queue_ != nullptr) discard(queue_->take_all());
    }

    void operator()() {
      const std::shared_ptr<delivery_queue> queue = std::move(queue_);
      check_list some;
      const bool more = queue->take(some);
      delivery_batch batch(executor_, std::move(some));
      if (more) queue->post(executor_);
      batch();
    }

   private:
    std::shared_ptr<delivery_queue> queue_;
    boost::asio::any_io_executor executor_;
  };

  void post(const boost::asio::any_io_executor& executor) {
    try {
      boost::asio::post(executor, turn(shared_from_this(), executor));
    } catch (...) {
      // The next check that is added posts again.
      const std::lock_guard lock(mutex_);
      is_posted_ = false;
      throw;
    }
  }

  /// True if checks are left: another function must be posted.
  bool take(check_list& some) {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < most && !ready_.empty(); ++i)
      some.splice(some.end(), ready_, ready_.begin());
    return is_posted_ = !ready_.empty();
  }
  check_list take_all() {
    const std::lock_guard lock(mutex_);
    is_posted_ = false;
    return std::move(ready_);
  }

  std::mutex mutex_;
  check_list ready_;
  bool is_posted_ = false;
};

}  // namespace weir::detail
