#include "support/memcached_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "support/server_program.hpp"

namespace weir::test {
namespace memcached_process {
namespace {

constexpr std::chrono::seconds patience{20};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), "memcached: " + what);
}

/// A file descriptor that is closed.
struct socket_handle {
  explicit socket_handle(int family = AF_INET)
      : fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  const int fd;
  ~socket_handle() { ::close(fd); }
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int connect_to_path(int fd, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

int connect_to_port(int fd, std::uint16_t port) {
  const sockaddr_in address = loopback(port);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::uint16_t find_port() {
  const socket_handle s;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(s.fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(s.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail("bind to a free port");
  }
  return ntohs(address.sin_port);
}

}  // namespace
}  // namespace memcached_process

memcached_server_process::memcached_server_process(std::vector<std::string> arguments)
    : arguments_(std::move(arguments)) {
  for (int attempts = 10; attempts > 0; --attempts) {
    port_ = memcached_process::find_port();
    if (start()) return;
  }
  throw std::runtime_error("memcached: no free port found");
}

memcached_server_process::memcached_server_process(over_socket) {
  std::string name = (std::filesystem::temp_directory_path() / "weir-memcached-XXXXXX").string();
  if (name.size() > 80) name = "/tmp/weir-memcached-XXXXXX";  // a socket's path stays below 108
  if (::mkdtemp(name.data()) == nullptr) memcached_process::fail("mkdtemp " + name);
  socket_path_ = name + "/socket";
  if (!start()) throw std::runtime_error("memcached: it ended at once");
}

memcached_server_process::~memcached_server_process() {
  kill();
  if (socket_path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(socket_path_).parent_path(), ignored);
}

memcached_options memcached_server_process::patient_options() const {
  memcached_options o;
  o.servers = {memcached_server{.port = port_, .unix_path = socket_path_}};
  o.timeout = o.silence_timeout = std::chrono::seconds{50};
  o.backoff_min = std::chrono::milliseconds{1};
  o.backoff_max = std::chrono::milliseconds{20};
  o.breaker_failures = 0;
  return o;
}

/// False if another process has the port.
bool memcached_server_process::start() {
  std::vector<std::string> command = {server_program("WEIR_MEMCACHED", {"memcached"}), "-U", "0",
                                      "-t", "2"};
  if (socket_path_.empty()) {
    command.insert(command.end(), {"-l", "127.0.0.1", "-p", std::to_string(port_)});
  } else {
    command.insert(command.end(), {"-s", socket_path_});
  }
  if (::geteuid() == 0) command.insert(command.end(), {"-u", "root"});
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) memcached_process::fail("fork");
  if (pid_ == 0) {
    // Only what is safe between fork and exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; ++fd) ::dup2(null, fd);
    ::close_range(3, ~0U, 0);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + memcached_process::patience;
  for (;;) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    try {
      // The process tells its own id: it is not one that took the port before it.
      if (figure("pid") == pid_) return true;
    } catch (const std::exception&) {
      if (std::chrono::steady_clock::now() > deadline) throw;
    }
    ::poll(nullptr, 0, 2);
  }
}

void memcached_server_process::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void memcached_server_process::restart() {
  kill();
  const auto deadline = std::chrono::steady_clock::now() + memcached_process::patience;
  while (!start()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("memcached: the port stays taken");
    }
    ::poll(nullptr, 0, 2);
  }
}

void memcached_server_process::pause() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGSTOP);
  while (::waitpid(pid_, nullptr, WUNTRACED) < 0 && errno == EINTR) {
  }
}

void memcached_server_process::resume() {
  if (pid_ >= 0) ::kill(pid_, SIGCONT);
}

std::string memcached_server_process::ask(std::string_view request, std::string_view end) const {
  const bool at_port = socket_path_.empty();
  const memcached_process::socket_handle s(at_port ? AF_INET : AF_UNIX);
  const timeval limit{20, 0};
  ::setsockopt(s.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if ((at_port ? memcached_process::connect_to_port(s.fd, port_)
               : memcached_process::connect_to_path(s.fd, socket_path_)) != 0) {
    memcached_process::fail("connect");
  }
  if (::send(s.fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    memcached_process::fail("send");
  }
  std::string reply;
  while (!std::string_view(reply).ends_with(end)) {
    char piece[4096];
    const ssize_t n = ::recv(s.fd, piece, sizeof piece, 0);
    if (n <= 0) memcached_process::fail("recv");
    reply.append(piece, static_cast<std::size_t>(n));
  }
  return reply;
}

std::int64_t memcached_server_process::figure(std::string_view name) const {
  const std::string all = ask("stats\r\n", "END\r\n");
  const std::string line = "STAT " + std::string(name) + ' ';
  const std::size_t at = all.find(line);
  if (at == all.npos) throw std::runtime_error("memcached: no such figure");
  return std::stoll(all.substr(at + line.size()));
}

}  // namespace weir::test
