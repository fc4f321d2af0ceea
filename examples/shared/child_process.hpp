#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace examples {

/// Runs this program again, in a process of its own, with other arguments: for examples of several
/// processes on one store. One line at a time goes to its standard input, and one comes from its
/// standard output. Its destructor ends it.
///
/// Its main() calls die_with_parent() and ends when its input does: so it never outlives us,
/// however we end.
class child_process {
 public:
  explicit child_process(std::vector<std::string> arguments);
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  ~child_process();  ///< ends the process, and waits for that

  /// Throws std::runtime_error if it has died.
  void write_line(std::string text);

  /// Throws std::runtime_error if it has died, or no line comes in time.
  std::string read_line(std::chrono::milliseconds patience);

  void signal(int number) noexcept;  ///< such as SIGSTOP
  void kill() noexcept;              ///< as a crash; returns when it is gone. Ends its use

  pid_t pid() const noexcept { return pid_; }

 private:
  bool ends_within(std::chrono::milliseconds patience) noexcept;
  void close_and_wait() noexcept;

  pid_t pid_ = -1;
  int to_ = -1;    // its standard input
  int from_ = -1;  // its standard output
  std::string unread_;
};

/// For the child: if its parent is killed, it goes at once.
void die_with_parent();

}  // namespace examples
