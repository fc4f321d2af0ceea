#pragma once

#include <mutex>

namespace weir::net {

/// A mutex that its owner may do without, when everything runs in one thread.
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
