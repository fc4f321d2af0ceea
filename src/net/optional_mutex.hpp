#pragma once

#include "base/light_mutex.hpp"

namespace weir::net {

/// A mutex that does nothing if its owner runs in one thread (redis_options::single_threaded).
class optional_mutex {
 public:
  explicit optional_mutex(bool needed) noexcept : needed_(needed) {}
  void lock() noexcept {
    if (needed_) mutex_.lock();
  }
  void unlock() noexcept {
    if (needed_) mutex_.unlock();
  }

 private:
  detail::light_mutex mutex_;
  const bool needed_;
};

}  // namespace weir::net
