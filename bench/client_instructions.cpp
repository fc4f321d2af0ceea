// Counts what one check costs the client: 1,024 coroutines await record() in a loop, or acquire().
// bench/client_instructions.sh builds it, starts a server, and prints the table.
//
//   client_instructions SOCKET TRAFFIC CHECKS
//
// TRAFFIC: `distinct` (a key for each caller), `single` (the same, with one key to a script call),
// `tiers` (distinct, and a second tier), `cool_downs` (distinct, of a limiter that has them),
// `acquire` (distinct, requests that need not wait), `hot` (one key for all), `lone` (one caller),
// `pool` (the same on a thread_pool), or `memory` (distinct keys in a memory store; SOCKET is not
// used). It prints the traffic, the checks that were measured, and per check: heap allocations; and
// how often each system call was made.
// Under callgrind with --toggle-collect=measured, the total is that of the measured checks, but not
// of `pool`, whose thread cannot be stopped between these and the ones before.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "client_acquirer.hpp"
#include "support/allocations.hpp"
#include "weir/weir.hpp"

namespace {

namespace asio = boost::asio;

struct system_calls {
  std::uint64_t sends = 0;
  std::uint64_t reads = 0;        // of the connection, with bytes
  std::uint64_t empty_reads = 0;  // of the connection, without any
  std::uint64_t polls = 0;
  std::uint64_t others = 0;  // timers, wake-ups, changes of what is polled
};
system_calls calls;

long read_of_connection(long n) {
  ++(n > 0 ? calls.reads : calls.empty_reads);
  return n;
}

}  // namespace

// Asio makes its system calls through these.
extern "C" {
ssize_t sendmsg(int s, const msghdr* m, int flags) {
  ++calls.sends;
  return syscall(SYS_sendmsg, s, m, flags);
}
ssize_t send(int s, const void* bytes, size_t n, int flags) {
  ++calls.sends;
  return syscall(SYS_sendto, s, bytes, n, flags, nullptr, 0);
}
ssize_t recvmsg(int s, msghdr* m, int flags) {
  return read_of_connection(syscall(SYS_recvmsg, s, m, flags));
}
ssize_t recv(int s, void* room, size_t n, int flags) {
  return read_of_connection(syscall(SYS_recvfrom, s, room, n, flags, nullptr, nullptr));
}
ssize_t read(int f, void* room, size_t n) {
  ++calls.others;
  return syscall(SYS_read, f, room, n);
}
ssize_t write(int f, const void* bytes, size_t n) {
  ++calls.others;
  return syscall(SYS_write, f, bytes, n);
}
int epoll_ctl(int e, int what, int f, epoll_event* event) noexcept {
  ++calls.others;
  return static_cast<int>(syscall(SYS_epoll_ctl, e, what, f, event));
}
int timerfd_settime(int f, int flags, const itimerspec* at, itimerspec* was) noexcept {
  ++calls.others;
  return static_cast<int>(syscall(SYS_timerfd_settime, f, flags, at, was));
}
int epoll_wait(int e, epoll_event* events, int most, int timeout) {
  ++calls.polls;
  return static_cast<int>(syscall(SYS_epoll_wait, e, events, most, timeout));
}

// callgrind finds it by this name.
[[gnu::noinline]] void measured(asio::io_context& context) { context.run(); }
}

namespace {

constexpr std::size_t crowd = 1024;

class program {
 public:
  program(const std::string& socket, std::string_view traffic)
      : is_hot_(traffic == "hot"),
        acquires_(traffic == "acquire"),
        callers_(traffic == "lone" || traffic == "pool" ? 1 : crowd),
        executor_(traffic == "pool" ? asio::any_io_executor(pool_.get_executor())
                                    : context_.get_executor()),
        store_(open(socket, traffic)),
        limiter_(store_, "partner-api", rules(traffic), {.cool_downs = traffic == "cool_downs"}) {}

  void run(std::string_view traffic, std::uint64_t checks) {
    for (std::size_t i = 0; i < callers_; ++i) {
      asio::co_spawn(executor_, acquires_ ? acquirer(i) : caller(i), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
    }
    stop_at_ = std::max<std::uint64_t>(16 * callers_, 1000);
    checks_wanted_ = checks;
    if (traffic == "pool") {
      pool_.join();
    } else {
      context_.run();
      begin();
      context_.restart();
      measured(context_);
    }
    const std::uint64_t done = checks_ - begun_.checks;
    const auto each = [&](std::uint64_t now, std::uint64_t then) {
      return static_cast<double>(now - then) / static_cast<double>(done);
    };
    std::printf("%s %llu %.4f %.4f %.4f %.4f %.4f %.4f\n", std::string(traffic).c_str(),
                static_cast<unsigned long long>(done),
                each(bench::allocations(), begun_.allocations),
                each(calls.sends, begun_.calls.sends), each(calls.reads, begun_.calls.reads),
                each(calls.empty_reads, begun_.calls.empty_reads),
                each(calls.polls, begun_.calls.polls), each(calls.others, begun_.calls.others));
    std::fflush(stdout);
  }

 private:
  static weir::tiers rules(std::string_view traffic) {
    const weir::token_bucket bucket{.capacity = 1'000'000'000, .refill = weir::per_second(1000)};
    if (traffic != "tiers") return weir::tiers(bucket);
    return weir::tiers(bucket, weir::fixed_window{1'000'000'000, std::chrono::hours{24}});
  }

  weir::store open(const std::string& socket, std::string_view traffic) {
    if (traffic == "memory") return weir::make_memory_store(executor_);
    weir::redis_options o;
    o.unix_path = socket;
    o.timeout = std::chrono::seconds{20};  // under valgrind, nothing is soon
    if (traffic == "single") o.max_keys_per_call = 1;
    return weir::make_redis_store(executor_, std::move(o));
  }

  asio::awaitable<void> caller(std::size_t index) {
    const std::string subject = subject_of(index);
    for (;;) {
      const weir::decision d = co_await limiter_.record(subject);
      if (!d.allowed) throw std::runtime_error("refused");
      if (++checks_ == stop_at_) stop();
    }
  }
  asio::awaitable<void> acquirer(std::size_t index) {
    return weir::bench::acquire_for_ever(limiter_, subject_of(index), [this](const auto& d) {
      if (!d.allowed) throw std::runtime_error("refused");
      if (++checks_ == stop_at_) stop();
    });
  }
  std::string subject_of(std::size_t index) const {
    return "account-" + std::to_string(is_hot_ ? 1000 : 1000 + index);
  }

  /// Begins to measure.
  void begin() {
    begun_ = {checks_, bench::allocations(), calls};
    stop_at_ += checks_wanted_;
  }

  void stop() {
    if (executor_ == context_.get_executor()) return context_.stop();
    if (begun_.checks == 0) return begin();
    pool_.stop();
  }

  struct counts {
    std::uint64_t checks = 0, allocations = 0;
    system_calls calls;
  };

  const bool is_hot_, acquires_;
  const std::size_t callers_;
  asio::io_context context_{1};
  asio::thread_pool pool_{1};
  const asio::any_io_executor executor_;
  weir::store store_;
  weir::limiter limiter_;
  std::uint64_t checks_ = 0;
  std::uint64_t checks_wanted_ = 0;
  std::uint64_t stop_at_ = 0;
  counts begun_;  // when measuring began
};

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  try {
    program(words[1], words[2]).run(words[2], std::strtoull(words[3], nullptr, 10));
  } catch (const std::exception& e) {
    std::cerr << "client_instructions: " << e.what() << '\n';
    return 1;
  }
}
