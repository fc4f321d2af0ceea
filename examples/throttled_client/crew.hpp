#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace throttled {

/// What the callers of one process need to know.
struct job {
  std::string store;        ///< URL
  std::string account;      ///< a new one for each run, so that runs do not meet in Redis
  std::string certificate;  ///< the vendor's
  std::string port;         ///< the vendor's
  int callers = 0;          ///< in this process
  bool with_weir = true;

  std::vector<std::string> to_arguments() const;
  static job from_arguments(const std::vector<std::string>& arguments);
};

/// What the callers have seen.
struct crew_report {
  std::int64_t answered = 0;     ///< calls that ended with a 200
  std::int64_t turned_away = 0;  ///< calls that ended with a 429
  std::int64_t failed = 0;       ///< calls that ended with an error
  std::int64_t paused = 0;       ///< responses that asked for a pause
  std::int64_t displaced = 0;    ///< attempts that were given up because their lease was lost
};

// One line of text each.
std::ostream& operator<<(std::ostream& out, const crew_report& r);
std::istream& operator>>(std::istream& in, crew_report& r);

/// Runs the callers of one process; each makes one call after the other. Writes "ready" to the
/// standard output when all connections are open, and begins at the line "go" on the standard
/// input. After the line "stop when you hold a lease", writes "stopping" and stops itself with a
/// SIGSTOP at its next call. Ends at any other line, or the end of the input: writes "done" and the
/// callers' report. Errors of calls go to the standard error.
int run_crew(const job& work);

}  // namespace throttled
