#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/memcached_options.hpp"

namespace weir::test {

/// A real memcached of the test's own, at a free loopback port or on a Unix socket. WEIR_MEMCACHED
/// names another program. Without one, the constructor throws: a missing server is a failure, not a
/// reason to skip.
///
/// It dies with the thread that started it (PR_SET_PDEATHSIG), so nothing is left when a test
/// crashes.
class memcached_server_process {
 public:
  /// `arguments`: more of the command line, such as {"-m", "1"}.
  explicit memcached_server_process(std::vector<std::string> arguments = {});
  /// On a socket in a directory of its own.
  static memcached_server_process on_unix_socket() {
    return memcached_server_process(over_socket{});
  }
  ~memcached_server_process();
  memcached_server_process(const memcached_server_process&) = delete;
  memcached_server_process& operator=(const memcached_server_process&) = delete;

  /// What open_store() takes.
  std::string url() const {
    return socket_path_.empty() ? "memcached://127.0.0.1:" + std::to_string(port_)
                                : "memcached+unix://" + socket_path_;
  }
  /// For tests in which time plays no part: deadlines far away, and a quick return.
  memcached_options patient_options() const;
  std::uint16_t port() const noexcept { return port_; }  ///< 0 on a Unix socket
  const std::string& socket_path() const noexcept { return socket_path_; }
  pid_t pid() const noexcept { return pid_; }  ///< -1 while it is down

  void kill();     ///< SIGKILL; returns when it is gone
  void restart();  ///< at the same port, with nothing in it; kills it first if it runs
  void pause();    ///< SIGSTOP; returns when it has stopped
  void resume();   ///< SIGCONT

  /// Sends a request on a connection of its own; the reply up to and with `end`.
  std::string ask(std::string_view request, std::string_view end = "\r\n") const;
  /// A figure of `stats`.
  std::int64_t figure(std::string_view name) const;
  /// Forgets all items. memcached does so by whole seconds; an item stored right after it stays.
  void flush() const { ask("flush_all\r\n"); }

 private:
  struct over_socket {};
  explicit memcached_server_process(over_socket);
  bool start();

  std::vector<std::string> arguments_;
  std::uint16_t port_ = 0;
  std::string socket_path_;  // empty if it listens at the port
  pid_t pid_ = -1;
};

}  // namespace weir::test
