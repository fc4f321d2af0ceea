#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "../shared/child_process.hpp"
#include "crew.hpp"

namespace demo {

/// A process of its own that runs callers: this program again, as `weir_demo --worker ...`. It
/// reads commands from its standard input, "throttled 10", and writes a line with the result of
/// each to its standard output.
class worker {
 public:
  explicit worker(const job& work);

  void start(phase which, std::chrono::seconds duration);

  /// The tally of the phase started. Throws what went wrong in the worker.
  tally finish();

 private:
  examples::child_process process_;
  std::chrono::seconds duration_{0};
};

/// The other end: what main() does when called as a worker. `arguments` are those after --worker.
int run_worker(const std::vector<std::string>& arguments);

}  // namespace demo
