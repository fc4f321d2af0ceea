#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace examples {

/// Runs this program again as a child process, with other arguments: for examples of several
/// processes on one store. The parent writes lines to the child's standard input and reads lines
/// from its standard output. The destructor ends the child.
///
/// The child's main() calls die_with_parent() and ends when its input ends, so the child never
/// outlives the parent.
class child_process {
 public:
  explicit child_process(std::vector<std::string> arguments);
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  ~child_process();  ///< ends the child, and waits for its end

  /// Throws std::runtime_error if the child has died.
  void write_line(std::string text);

  /// Throws std::runtime_error if the child has died, or no line comes in time.
  std::string read_line(std::chrono::milliseconds patience);

  void signal(int number) noexcept;  ///< such as SIGSTOP
  /// As a crash; returns when the child is gone. Call nothing else then.
  void kill() noexcept;

  pid_t pid() const noexcept { return pid_; }

 private:
  bool ends_within(std::chrono::milliseconds patience) noexcept;
  void close_and_wait() noexcept;

  pid_t pid_ = -1;
  int to_ = -1;    // its standard input
  int from_ = -1;  // its standard output
  std::string unread_;
};

/// Called in the child: the child ends at once if its parent is killed.
void die_with_parent();

}  // namespace examples
