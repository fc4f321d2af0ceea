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

/// What they have seen.
struct crew_report {
  std::int64_t answered = 0;     ///< calls that ended with a 200
  std::int64_t turned_away = 0;  ///< calls that ended with a 429
  std::int64_t failed = 0;       ///< calls that ended with an error
  std::int64_t paused = 0;       ///< responses that asked for a pause
  std::int64_t displaced = 0;    ///< attempts that were given up because their place was lost
};

// One line of text each.
std::ostream& operator<<(std::ostream& out, const crew_report& r);
std::istream& operator>>(std::istream& in, crew_report& r);

/// A process of callers, who make one call after the other. Says "ready" on the standard output
/// when all connections are there; begins at the line "go" on the standard input; ends at its next
/// line, or its end, and says "done" and what its callers have seen. What goes wrong in a call goes
/// to the standard error.
int run_crew(const job& work);

}  // namespace throttled
