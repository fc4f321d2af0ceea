#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tally.hpp"

namespace demo {

/// What the callers of one process need to know.
struct job {
  std::string store;    ///< URL of the store
  std::string account;  ///< the subject; a new one for each run, so that runs do not meet in Redis
  int allowance = 0;    ///< the vendor's limit per second
  int callers = 0;      ///< in this process
  int all_callers = 0;  ///< in all processes
  std::uint16_t vendor_port = 0;
  std::chrono::microseconds ahead_of_store{0};  ///< see throttle
};

/// Runs all callers of this process, in this thread, until the phase is over. Throws what goes
/// wrong in any of them.
tally run_callers(const job& work, phase which, std::chrono::seconds duration);

/// How far our steady clock is ahead of the store's clock. Throws boost::system::system_error,
/// within a few seconds, if the store does not answer.
std::chrono::microseconds compare_clocks(const std::string& url);

}  // namespace demo
