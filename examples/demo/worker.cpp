#include "worker.hpp"

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
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

extern char** environ;

namespace demo {

using namespace std::chrono_literals;

namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Closed on exec, or every worker would hold its elders' pipes open.
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

std::vector<std::string> to_arguments(const job& work) {
  return {"weir_demo",
          "--worker",
          work.store,
          work.account,
          std::to_string(work.allowance),
          std::to_string(work.callers),
          std::to_string(work.all_callers),
          std::to_string(work.vendor_port),
          std::to_string(work.ahead_of_store.count())};
}

job from_arguments(const std::vector<std::string>& arguments) {
  job work;
  work.store = arguments.at(0);
  work.account = arguments.at(1);
  work.allowance = std::stoi(arguments.at(2));
  work.callers = std::stoi(arguments.at(3));
  work.all_callers = std::stoi(arguments.at(4));
  work.vendor_port = static_cast<std::uint16_t>(std::stoi(arguments.at(5)));
  work.ahead_of_store = std::chrono::microseconds{std::stoll(arguments.at(6))};
  return work;
}

}  // namespace

worker::worker(const job& work) {
  auto arguments = to_arguments(work);
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
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int error = ::posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  check(error, "cannot start a worker process");
}

worker::worker(worker&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      duration_(other.duration_) {}

worker::~worker() {
  if (pid_ < 0) return;
  // The end of its input ends it, and that ends its output. If it is too busy to notice, we insist.
  ::close(to_);
  if (!ends_within(500ms)) ::kill(pid_, SIGKILL);
  ::close(from_);
  ::waitpid(pid_, nullptr, 0);
}

void worker::start(phase which, std::chrono::seconds duration) {
  duration_ = duration;
  std::ostringstream command;
  command << (which == phase::throttled ? "throttled" : "unthrottled");
  command << ' ' << duration.count() << '\n';
  const std::string text = command.str();
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("a worker process has died");
  }
}

tally worker::finish() {
  std::istringstream line(read_line(duration_ + 10s));
  std::string status;
  line >> status;
  if (status != "done") {
    std::string text;
    std::getline(line >> std::ws, text);
    throw std::runtime_error("worker process " + std::to_string(pid_) + ": " + text);
  }
  tally result;
  if (!(line >> result)) throw std::runtime_error("a worker process sent half a result");
  return result;
}

bool worker::ends_within(std::chrono::milliseconds patience) noexcept {
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

std::string worker::read_line(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string line;
  while (line.empty() || line.back() != '\n') {
    if (!wait_for_input(from_, deadline)) {
      throw std::runtime_error("a worker process does not answer");
    }
    std::array<char, 4096> chunk;
    const auto size = ::read(from_, chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw std::runtime_error("a worker process has died");
    line.append(chunk.data(), static_cast<std::size_t>(size));
  }
  return line;
}

int run_worker(const std::vector<std::string>& arguments) {
  // If our parent is killed in the middle of a phase, we go at once. Else our input ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const job work = from_arguments(arguments);
  std::string name;
  for (int seconds = 0; std::cin >> name >> seconds;) {
    try {
      const auto which = name == "throttled" ? phase::throttled : phase::unthrottled;
      const tally result = run_callers(work, which, std::chrono::seconds{seconds});
      std::cout << "done " << result << std::endl;
    } catch (const std::exception& error) {
      std::cout << "failed " << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace demo
