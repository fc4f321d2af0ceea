#include "child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

extern char** environ;

namespace examples {

using namespace std::chrono_literals;

namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Closed on exec, or every child would hold its elders' pipes open.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
  return ends;
}

/// Something to read, or the end; false if there is neither by then.
bool wait_for_input(int from, std::chrono::steady_clock::time_point deadline) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{from, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, std::max(0, static_cast<int>(left.count())));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

child_process::child_process(std::vector<std::string> arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  arguments.insert(arguments.begin(), self);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const auto input = make_pipe();
  const auto output = make_pipe();
  to_ = input[1];
  from_ = output[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  const int error = ::posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  check(error, "cannot start a process");
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      unread_(std::move(other.unread_)) {}

child_process::~child_process() {
  if (pid_ < 0) return;
  // The end of its input ends the child, and then its output ends. A child too busy to notice is
  // killed.
  ::close(std::exchange(to_, -1));
  if (!ends_within(500ms)) signal(SIGKILL);
  close_and_wait();
}

void child_process::signal(int number) noexcept {
  if (pid_ >= 0) ::kill(pid_, number);
}

void child_process::kill() noexcept {
  if (pid_ < 0) return;
  signal(SIGKILL);
  close_and_wait();
}

void child_process::close_and_wait() noexcept {
  if (to_ >= 0) ::close(std::exchange(to_, -1));
  ::close(std::exchange(from_, -1));
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void child_process::write_line(std::string text) {
  text += '\n';
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("a process that we started has died");
  }
}

std::string child_process::read_line(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (!wait_for_input(from_, deadline)) {
      throw std::runtime_error("a process that we started does not answer");
    }
    std::array<char, 4096> chunk;
    const auto size = ::read(from_, chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw std::runtime_error("a process that we started has died");
    unread_.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

bool child_process::ends_within(std::chrono::milliseconds patience) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<char, 4096> unread;
  ssize_t size = 1;
  while (size != 0) {
    if (!wait_for_input(from_, deadline)) return false;
    size = ::read(from_, unread.data(), unread.size());
    if (size < 0 && errno != EINTR) return false;
  }
  return true;
}

// If the parent has ended before this call, the end of the input ends this process.
void die_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace examples
