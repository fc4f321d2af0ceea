#pragma once

#include <mutex>

namespace weir::net {

/// A mutex that does nothing if its owner runs in one thread (redis_options::single_threaded).
class optional_mutex {
 public:
  explicit optional_mutex(bool needed) noexcept : needed_(needed) {}
  void lock() {
    if (needed_) mutex_.lock();
  }
  void unlock() {
    if (needed_) mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  const bool needed_;
};

}  // namespace weir::net
