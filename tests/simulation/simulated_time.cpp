#include "simulation/simulated_time.hpp"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <limits>
#include <map>
#include <stdexcept>

namespace weir::simulation {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// Not zero, or everything at the beginning would be before the clock's own.
std::int64_t time_now = 1'000'000'000'000;

/// What Asio takes for timers: each is an eventfd, readable once its time has come.
std::map<int, std::int64_t>& timers() {
  static std::map<int, std::int64_t> all;
  return all;
}

void make_readable(int fd) {
  const std::uint64_t one = 1;
  if (::write(fd, &one, sizeof one) != ssize_t{sizeof one}) {
    throw std::logic_error("a simulated timer cannot be written to");
  }
}

void make_unreadable(int fd) {
  std::uint64_t count;
  [[maybe_unused]] const auto size = ::read(fd, &count, sizeof count);  // it may not be readable
}

}  // namespace

std::int64_t now() noexcept { return time_now; }

std::int64_t next_timer() noexcept {
  std::int64_t next = never;
  for (const auto& [fd, time] : timers()) next = std::min(next, time);
  return next;
}

void advance_to(std::int64_t time) {
  if (time < time_now) throw std::logic_error("simulated time never runs backward");
  time_now = time;
  for (auto& [fd, due] : timers()) {
    if (due <= time) {
      make_readable(fd);
      due = never;
    }
  }
}

simulated_context::simulated_context() {
  std::vector<int> before;
  for (const auto& [fd, time] : timers()) before.push_back(fd);
  io_ = std::make_unique<boost::asio::io_context>(1);
  // The first timer brings the reactor along, and that its own.
  const boost::asio::steady_timer first(*io_);
  for (const auto& [fd, time] : timers()) {
    if (!std::binary_search(before.begin(), before.end(), fd)) timers_.push_back(fd);
  }
  if (timers_.empty()) throw std::logic_error("this Asio does not use timerfd");
}

simulated_context::~simulated_context() {
  io_.reset();
  for (const int fd : timers_) timers().erase(fd);  // closed with the reactor
}

std::size_t simulated_context::poll() {
  const auto work = boost::asio::make_work_guard(*io_);
  io_->restart();
  return io_->poll();
}

}  // namespace weir::simulation

using weir::simulation::never;
using weir::simulation::timers;

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  if (clock != CLOCK_MONOTONIC) return static_cast<int>(::syscall(SYS_clock_gettime, clock, out));
  const std::int64_t now = weir::simulation::now();
  *out = {now / 1'000'000, now % 1'000'000 * 1000};
  return 0;
}

int timerfd_create(clockid_t, int) noexcept {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd >= 0) timers()[fd] = never;
  return fd;
}

int timerfd_settime(int fd, int flags, const itimerspec* to, itimerspec*) noexcept {
  weir::simulation::make_unreadable(fd);
  const std::int64_t time = to->it_value.tv_sec * 1'000'000 + (to->it_value.tv_nsec + 999) / 1000;
  const bool is_off = to->it_value.tv_sec == 0 && to->it_value.tv_nsec == 0;
  std::int64_t& due = timers()[fd];
  due = is_off ? never : (flags & TFD_TIMER_ABSTIME) != 0 ? time : weir::simulation::now() + time;
  if (due <= weir::simulation::now()) {
    due = never;
    weir::simulation::make_readable(fd);
  }
  return 0;
}

}  // extern "C"
