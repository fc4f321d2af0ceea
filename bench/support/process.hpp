#pragma once

#include <sys/types.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace bench {

/// Client and server each get a core of their own, so that neither takes the other's time. -1 if
/// there is only one.
struct core_pair {
  int client = -1;
  int server = -1;
};

/// The last two cores that this process may use. To be asked before anything is pinned.
core_pair choose_cores();

/// Children inherit it. Does nothing for -1.
void pin_to(int core);

/// CPU time used by all threads of a process, to the nanosecond.
double cpu_seconds(clockid_t clock);

/// A redis-server of our own, on a Unix socket in a temporary directory, without persistence. It
/// dies with this process.
class redis_server {
 public:
  explicit redis_server(int core);
  ~redis_server();
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;

  std::string socket_path() const { return (directory_ / "redis.sock").string(); }
  double cpu_seconds() const { return bench::cpu_seconds(cpu_clock_); }

  /// Sends a command and waits for its reply; throws std::runtime_error if that is an error.
  void command(const std::vector<std::string>& arguments) const;

 private:
  std::filesystem::path directory_;
  pid_t pid_ = -1;
  clockid_t cpu_clock_{};
};

struct program_result {
  std::string output;
  double cpu_seconds = 0;
};

/// Runs a program to its end; throws std::runtime_error if it fails.
program_result run_program(const std::vector<std::string>& arguments);

}  // namespace bench
