#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <vector>

/// Time of the test's own. In a program with this file, the monotonic clock stands still until the
/// test moves it, and the timers of every simulated_context go by it: the library runs as it is,
/// its timers too, and no time is spent waiting.
///
/// The C library's clock_gettime, timerfd_create and timerfd_settime give way to ones of the test's
/// own, which Asio calls in their place. One thread only.
namespace weir::simulation {

/// Microseconds on the monotonic clock.
std::int64_t now() noexcept;

/// When the earliest timer is due; the largest number there is if none is armed.
std::int64_t next_timer() noexcept;

/// Not before now(). What is due then runs with the next poll.
void advance_to(std::int64_t time);

/// An io_context that never runs out of work, and knows which timers are its own.
class simulated_context {
 public:
  simulated_context();
  ~simulated_context();
  simulated_context(const simulated_context&) = delete;
  simulated_context& operator=(const simulated_context&) = delete;

  boost::asio::io_context& io() noexcept { return *io_; }

  /// Runs what can run now, and what follows from that. The number of handlers.
  std::size_t poll();

 private:
  std::vector<int> timers_;
  std::unique_ptr<boost::asio::io_context> io_;
};

}  // namespace weir::simulation
