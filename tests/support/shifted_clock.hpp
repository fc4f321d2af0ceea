#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace weir::test {

/// A system clock that the test sets, for a server it starts: {.environment = clock.environment()}.
/// It runs as the real one does, so much ahead of it or behind, and may be set at any time. Clocks
/// that only ever go forward stay as they are.
///
/// A small library of our own, preloaded, because the usual one (libfaketime) and jemalloc, which
/// servers are linked with, wait for each other at the start.
class shifted_clock {
 public:
  shifted_clock();
  ~shifted_clock();
  shifted_clock(const shifted_clock&) = delete;
  shifted_clock& operator=(const shifted_clock&) = delete;

  std::vector<std::string> environment() const;

  void step(std::chrono::microseconds by);
  /// From now on it stands still, and shows that.
  void stop_at(std::chrono::microseconds since_epoch);
  std::chrono::microseconds shift() const;  ///< all steps together

 private:
  std::string path_;
  // In shared memory, in microseconds; behind it where it stands, 0 if it runs
  long long* offset_ = nullptr;
};

}  // namespace weir::test
