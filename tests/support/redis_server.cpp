#include "support/redis_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "support/redis_client.hpp"
#include "support/server_program.hpp"

namespace weir::test {
namespace {

using clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{20};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), "redis_server: " + what);
}

/// Leaves the processor to others for a moment, between two looks at something that has no event to
/// wait for.
void breathe() { ::poll(nullptr, 0, 2); }

int find_free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool found = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!found) fail("bind to a free port");
  return ntohs(address.sin_port);
}

bool is_gone(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, WNOHANG) == pid;
}

}  // namespace

redis_server::redis_server(redis_server_options options)
    : options_(std::move(options)),
      program_(server_program("WEIR_REDIS_SERVER", {"redis-server", "valkey-server"})) {
  std::string name = (std::filesystem::temp_directory_path() / "weir-redis-XXXXXX").string();
  if (name.size() > 80) name = "/tmp/weir-redis-XXXXXX";  // a socket's path has to stay below 108
  if (!::mkdtemp(name.data())) fail("mkdtemp " + name);
  directory_ = name;
  try {
    choose_address();
    for (int attempts = 10; start() == outcome::address_taken; choose_address()) {
      if (--attempts == 0) throw std::runtime_error("redis_server: no free port found:\n" + log());
    }
  } catch (...) {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    throw;
  }
}

redis_server::~redis_server() {
  kill();
  if (held_port_ >= 0) ::close(held_port_);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void redis_server::choose_address() {
  const bool tls = !options_.tls.certificate_file.empty();
  if (options_.unix_socket || tls || options_.address != "127.0.0.1") {
    socket_path_ = directory_ + "/redis.sock";
  }
  if (!options_.unix_socket) port_ = find_free_port();
  while (options_.cluster && port_ > 55'535) port_ = find_free_port();
}

std::string redis_server::url() const {
  if (options_.unix_socket) return "unix://" + socket_path_;
  const std::string user_info = options_.password.empty() ? "" : ":" + options_.password + "@";
  const bool v6 = options_.address.find(':') != std::string::npos;
  return (options_.tls.certificate_file.empty() ? "redis://" : "rediss://") + user_info +
         (v6 ? "[" + options_.address + "]" : options_.address) + ":" + std::to_string(port_);
}

std::string redis_server::log() const {
  std::ifstream file(directory_ + "/log");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

redis_server::outcome redis_server::start() {
  if (held_port_ >= 0) ::close(std::exchange(held_port_, -1));
  const std::string log_path = directory_ + "/log";
  std::filesystem::remove(log_path);
  const redis_server_tls& tls = options_.tls;
  std::vector<std::string> command = {program_,
                                      tls.certificate_file.empty() ? "--port" : "--tls-port",
                                      std::to_string(port_),
                                      "--bind",
                                      options_.address,
                                      "--dir",
                                      directory_,
                                      "--save",
                                      "",
                                      "--appendonly",
                                      "no",
                                      "--daemonize",
                                      "no",
                                      "--logfile",
                                      log_path};
  if (options_.sentinel) {
    const std::string configuration = directory_ + "/sentinel.conf";  // it writes to that
    std::ofstream(configuration) << "port " << port_ << "\n";
    command = {program_, configuration, "--sentinel", "--bind", options_.address,
               "--dir",  directory_,    "--logfile",  log_path};
  }
  if (!tls.certificate_file.empty()) {
    if (options_.sentinel) command.insert(command.end(), {"--tls-port", std::to_string(port_)});
    // What it opens itself, to a master or as a Sentinel, speaks TLS as well.
    command.insert(command.end(), {"--port", "0", "--tls-replication", "yes", "--tls-cert-file",
                                   tls.certificate_file, "--tls-key-file", tls.key_file,
                                   "--tls-ca-cert-file", tls.ca_file, "--tls-auth-clients",
                                   tls.clients_need_certificate ? "yes" : "no"});
  }
  if (!tls.certificate_file.empty() && options_.cluster) {
    command.insert(command.end(), {"--tls-cluster", "yes"});
  }
  if (!socket_path_.empty()) command.insert(command.end(), {"--unixsocket", socket_path_});
  if (!options_.password.empty()) {
    command.insert(command.end(), {"--requirepass", options_.password});
  }
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : options_.environment) environment.push_back(variable.data());
  for (char** variable = environ; *variable; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);

  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    // Only what is safe between fork and exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; ++fd) ::dup2(null, fd);
    // Asio's sockets are not closed by exec. A server that held one would keep its connection open
    // after the test has closed it.
    ::close_range(3, ~0U, 0);
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(127);
  }

  // Its own log tells that this server is the one that listens, and not one that took the port
  // before it.
  const auto deadline = clock::now() + patience;
  const auto is_ready = [this] {
    const std::string text = log();
    const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
    if (options_.sentinel) return says("Sentinel ID is");
    return says("eady to accept connections") || says("Thread 0 alive");  // KeyDB
  };
  while (!is_ready()) {
    if (is_gone(pid_)) {
      pid_ = -1;
      const std::string text = log();
      if (text.find("Address already in use") != std::string::npos) return outcome::address_taken;
      throw std::runtime_error("redis_server: " + program_ + " ended at once:\n" + text);
    }
    if (clock::now() > deadline) {
      throw std::runtime_error("redis_server: not ready after 20 s:\n" + log());
    }
    breathe();
  }
  redis_client client(*this, {.authenticate = false});
  const reply pong = client.call("PING");
  const bool answers = pong.text == "PONG" || pong.text.starts_with("NOAUTH") ||
                       pong.text.starts_with("ERR unknown command");  // renamed
  if (!answers) {
    throw std::runtime_error("redis_server: PING answered " + pong.text);
  }
  return outcome::ready;
}

void redis_server::wait_until_gone() noexcept {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

/// Nobody listens at the port, and no test finds it free: its server would answer the tested store.
void redis_server::hold_port() noexcept {
  if (port_ == 0 || options_.address != "127.0.0.1") return;
  held_port_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(held_port_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // If it fails, the port is as free as any.
  std::ignore = ::bind(held_port_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

void redis_server::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait_until_gone();
  hold_port();
}

void redis_server::terminate() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGTERM);
  wait_until_gone();
  hold_port();
}

void redis_server::restart() {
  kill();
  const auto deadline = clock::now() + patience;
  while (start() == outcome::address_taken) {
    if (clock::now() > deadline) {
      throw std::runtime_error("redis_server: the port stays taken:\n" + log());
    }
    breathe();
  }
}

void redis_server::pause() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGSTOP);
  while (::waitpid(pid_, nullptr, WUNTRACED) < 0 && errno == EINTR) {
  }
}

void redis_server::resume() {
  if (pid_ >= 0) ::kill(pid_, SIGCONT);
}

}  // namespace weir::test
