#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <mutex>
#include <utility>

#include "base/light_mutex.hpp"
#include "check/flight.hpp"

namespace weir::detail {

/// Delivers checks that a store finishes one by one, on any thread: the first check posts a
/// function, which also delivers the checks that are added before it runs. Only for checks with
/// at_store: the others go to their own executors.
///
/// While a handler runs, all other checks stay in the queue, and a function for them is posted. So
/// another thread, or a nested run(), can deliver them even if this handler blocks or throws.
class delivery_queue : public std::enable_shared_from_this<delivery_queue> {
 public:
  /// The call may free the check, and with it the last handle of the store.
  void add(const boost::asio::any_io_executor& executor, check& c) {
    std::unique_lock lock(mutex_);
    ready_.push_back(c);
    if (std::exchange(is_posted_, true)) return;
    // A function that already runs may take and free the check after the unlock.
    turn next(shared_from_this(), executor);
    lock.unlock();
    post(std::move(next));
  }

  /// Discards all checks: functions that are posted will not run.
  void context_shut_down() noexcept {
    check_list dropped;
    {
      const std::lock_guard lock(mutex_);
      dropped.swap(ready_);
    }
    discard(std::move(dropped));
  }

 private:
  /// The most checks that one function delivers. More would keep other work waiting.
  static constexpr int most = 64;

  /// A function that is posted. If it is destroyed instead of run, because the post failed, the
  /// next check that is added posts again.
  class turn {
   public:
    turn(std::shared_ptr<delivery_queue> q, const boost::asio::any_io_executor& executor)
        : executor(executor), queue_(std::move(q)) {}
    turn(turn&&) noexcept = default;
    turn& operator=(turn&&) = delete;
    ~turn() {
      if (queue_ != nullptr) queue_->not_posted();
    }

    void operator()() {
      const std::shared_ptr<delivery_queue> queue = std::move(queue_);
      queue->deliver(executor);
    }

    boost::asio::any_io_executor executor;

   private:
    std::shared_ptr<delivery_queue> queue_;
  };

  static void post(turn&& next) { boost::asio::post(next.executor, std::move(next)); }

  void not_posted() noexcept {
    const std::lock_guard lock(mutex_);
    is_posted_ = false;
  }

  void deliver(const boost::asio::any_io_executor& executor) {
    for (int i = 0; i < most; ++i) {
      bool must_post = false;
      check_list next;
      {
        const std::lock_guard lock(mutex_);
        if (i == 0) is_posted_ = false;  // it was this function
        if (ready_.empty()) return;
        next.splice(next.end(), ready_, ready_.begin());
        must_post = !ready_.empty() && !std::exchange(is_posted_, true);
      }
      if (must_post) post_or_put_back(executor, next);
      check& c = next.front();
      next.pop_front();
      c.finish(delivery::dispatch);
    }
  }

  void post_or_put_back(const boost::asio::any_io_executor& executor, check_list& taken) {
    try {
      post(turn(shared_from_this(), executor));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      ready_.splice(ready_.begin(), taken);
      throw;
    }
  }

  light_mutex mutex_;
  check_list ready_;
  bool is_posted_ = false;  // a function is posted that has not begun
};

}  // namespace weir::detail
