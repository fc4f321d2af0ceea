#include "support/process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "redis/resp_reader.hpp"
#include "redis/resp_writer.hpp"

namespace bench {
namespace {

namespace asio = boost::asio;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Starts a program on that core; its standard output goes to `output`. It is killed when this
/// process ends.
pid_t spawn(const std::vector<std::string>& arguments, int core, int output) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw_errno("fork");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before the line above
  pin_to(core);
  dup2(output, STDOUT_FILENO);
  execvp(argv[0], argv.data());
  perror(argv[0]);
  _exit(127);
}

/// What comes from that descriptor, up to and including `end`; less if it is closed before.
std::string read_until(int from, std::string_view end) {
  std::string text;
  std::array<char, 4096> some{};
  while (text.find(end) == std::string::npos) {
    const ssize_t n = read(from, some.data(), some.size());
    if (n <= 0) break;
    text.append(some.data(), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

core_pair choose_cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  core_pair chosen;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable)) chosen = {core, chosen.client};
  }
  return chosen.server < 0 ? core_pair{} : chosen;
}

void pin_to(int core) {
  if (core < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

redis_server::redis_server(int core) {
  std::string name = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw_errno("mkdtemp");
  directory_ = name;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  const char* program = std::getenv("WEIR_REDIS_SERVER");
  pid_ = spawn({program != nullptr ? program : "redis-server", "--port", "0", "--unixsocket",
                socket_path(), "--save", "", "--appendonly", "no", "--dir", name},
               core, ends[1]);
  close(ends[1]);
  const std::string said = read_until(ends[0], "eady to accept connections");
  close(ends[0]);  // a Redis that cannot write its log any more goes on without
  if (clock_getcpuclockid(pid_, &cpu_clock_) != 0) throw std::runtime_error("no CPU clock");
  try {
    command({"PING"});
  } catch (const std::exception& e) {
    throw std::runtime_error("redis-server does not start (" + std::string(e.what()) + "):\n" +
                             said);
  }
}

redis_server::~redis_server() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void redis_server::command(const std::vector<std::string>& arguments) const {
  asio::io_context context;
  asio::local::stream_protocol::socket socket(context);
  socket.connect(asio::local::stream_protocol::endpoint(socket_path()));

  std::string out;
  weir::redis::command_writer writer(out);
  writer.begin(arguments.size());
  for (const std::string& a : arguments) writer.arg(std::string_view(a));
  asio::write(socket, asio::buffer(out));

  weir::redis::reply_reader reader;
  weir::error_code ec;
  const weir::redis::reply_view* reply = nullptr;
  while ((reply = reader.next(ec)) == nullptr) {
    if (ec) throw std::runtime_error("redis-server: unreadable reply");
    const auto room = reader.prepare(1024);
    reader.commit(socket.read_some(asio::buffer(room.data(), room.size())));
  }
  if (reply->is_error()) {
    throw std::runtime_error("redis-server: " + std::string(reply->root().text));
  }
}

program_result run_program(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  const pid_t pid = spawn(arguments, -1, ends[1]);
  close(ends[1]);

  program_result result;
  std::array<char, 4096> some{};
  ssize_t n = 0;
  while ((n = read(ends[0], some.data(), some.size())) > 0) {
    result.output.append(some.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);

  int status = 0;
  rusage used{};
  wait4(pid, &status, 0, &used);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(arguments[0] + " failed: " + result.output);
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  result.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  return result;
}

}  // namespace bench
