#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weir::test {

/// With a certificate, the server's port speaks TLS alone, and so do its links to other servers.
struct redis_server_tls {
  std::string certificate_file = {};
  std::string key_file = {};
  std::string ca_file = {};  ///< the CAs that sign the certificates of clients and other servers
  bool clients_need_certificate = false;
};

struct redis_server_options {
  bool sentinel = false;     ///< a Sentinel that watches no server
  bool cluster = false;      ///< its bus needs a port 10,000 above its own
  bool unix_socket = false;  ///< listen on a Unix socket and on no port
  std::string address = "127.0.0.1";
  redis_server_tls tls = {};
  std::string password = {};
  std::vector<std::string> arguments = {};    ///< more of the command line: {"--maxmemory", "1mb"}
  std::vector<std::string> environment = {};  ///< on top of this process's: {"NAME=value"}
};

/// A real redis-server (or valkey-server) of the test's own: a free loopback port or a Unix socket,
/// a directory of its own, nothing kept on disk. With TLS its URL is rediss://, without parameters.
/// WEIR_REDIS_SERVER names another program. Without one, the constructor throws: a missing server
/// is a failure, not a reason to skip.
///
/// It dies with the thread that started it (PR_SET_PDEATHSIG), so nothing is left when a test
/// crashes.
class redis_server {
 public:
  explicit redis_server(redis_server_options options = {});
  ~redis_server();
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;

  /// What open_store() takes, password included.
  std::string url() const;
  int port() const noexcept { return port_; }  ///< 0 with a Unix socket
  /// Where a redis_client gets in; empty if it does by the port. A server with TLS or another
  /// address has both.
  const std::string& socket_path() const noexcept { return socket_path_; }
  const std::string& password() const noexcept { return options_.password; }
  pid_t pid() const noexcept { return pid_; }  ///< -1 while it is down

  void kill();       ///< SIGKILL, as a crash; returns when it is gone
  void terminate();  ///< SIGTERM, as an orderly end; returns when it is gone
  void restart();    ///< at the same address, with nothing in it; kills it first if it runs
  /// SIGSTOP: connections stay, the server does not answer; returns when it has stopped.
  void pause();
  void resume();  ///< SIGCONT

  /// What it has logged since it started.
  std::string log() const;

 private:
  enum class outcome { ready, address_taken };

  void choose_address();
  outcome start();
  void wait_until_gone() noexcept;
  void hold_port() noexcept;

  redis_server_options options_;
  std::string program_;
  std::string directory_;
  std::string socket_path_;
  int port_ = 0;
  pid_t pid_ = -1;
  int held_port_ = -1;  // while it is down: a socket that keeps the port from other tests
};

}  // namespace weir::test
