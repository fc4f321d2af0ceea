#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tally.hpp"
#include "vendor.hpp"

namespace demo {

/// Shows what the vendor sees while a phase runs, from construction to destruction: one line,
/// redrawn, when the standard output is a terminal; else a line each second.
class progress {
 public:
  progress(const vendor& server, phase which, std::chrono::seconds duration);

 private:
  std::jthread thread_;
};

/// What came of one phase: a tally for each process.
struct phase_report {
  phase which;
  std::chrono::seconds duration{0};
  std::vector<tally> processes;

  tally total() const;
};

void print_table(const std::vector<phase_report>& reports);

/// One sentence that says what the two phases show. True if weir kept to the allowance, and used it
/// well.
bool print_verdict(const tally& unthrottled, const phase_report& throttled, int callers, int rate);

}  // namespace demo
