#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>

namespace weir::test {

/// Children of the test's process. A fixture makes them first of all, while the process has no
/// threads yet.
template <std::size_t Count>
struct child_processes {
  std::array<pid_t, Count> pids{};
  std::array<int, Count> go{};  // where each child reads what it is to do
  int results = -1;             // where all tell what they have done

  /// A child runs be_child(its number, go, result), which does not return. `capacity` of the pipe
  /// for results, in bytes; 0: as it is.
  template <class F>
  explicit child_processes(F&& be_child, int capacity = 0) {
    std::array<int, 2> result{};
    BOOST_TEST_REQUIRE(::pipe(result.data()) == 0);
    if (capacity > 0) BOOST_TEST_REQUIRE(::fcntl(result[1], F_SETPIPE_SZ, capacity) >= 0);
    for (std::size_t i = 0; i < Count; ++i) {
      std::array<int, 2> start{};
      BOOST_TEST_REQUIRE(::pipe(start.data()) == 0);
      pids[i] = ::fork();
      BOOST_TEST_REQUIRE(pids[i] >= 0);
      if (pids[i] == 0) {
        ::close(start[1]);
        be_child(static_cast<int>(i), start[0], result[1]);
      }
      ::close(start[0]);
      go[i] = start[1];
    }
    ::close(result[1]);
    results = result[0];
  }
  ~child_processes() {
    for (const int fd : go) ::close(fd);
    for (const pid_t pid : pids) {
      if (pid > 0) ::kill(pid, SIGKILL);
      if (pid > 0) ::waitpid(pid, nullptr, 0);
    }
  }
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;

  template <class T>
  void send_all(const T& what) {
    for (const int fd : go) BOOST_TEST_REQUIRE(::write(fd, &what, sizeof what) == sizeof what);
  }
  /// The status of a child that ends by itself.
  int wait(std::size_t which) {
    int status = 0;
    BOOST_TEST(::waitpid(pids[which], &status, 0) == pids[which]);
    pids[which] = 0;
    return status;
  }
};

}  // namespace weir::test
