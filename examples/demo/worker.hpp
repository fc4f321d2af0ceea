#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "crew.hpp"

namespace demo {

/// A process of its own that runs callers: this program again, as `weir_demo --worker ...`. It
/// reads commands from its standard input, "throttled 10", writes a line with the result of each to
/// its standard output, and ends when its input does. Hence it never outlives us, however we end.
class worker {
 public:
  explicit worker(const job& work);
  worker(worker&& other) noexcept;
  worker& operator=(worker&&) = delete;
  ~worker();  ///< ends the process, and waits for that

  void start(phase which, std::chrono::seconds duration);

  /// The tally of the phase started. Throws what went wrong in the worker.
  tally finish();

 private:
  std::string read_line(std::chrono::milliseconds patience);
  bool ends_within(std::chrono::milliseconds patience) noexcept;

  pid_t pid_ = -1;
  int to_ = -1;    // its standard input
  int from_ = -1;  // its standard output
  std::chrono::seconds duration_{0};
};

/// The other end: what main() does when called as a worker. `arguments` are those after --worker.
int run_worker(const std::vector<std::string>& arguments);

}  // namespace demo
