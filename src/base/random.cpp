#include "base/random.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>

namespace weir::detail {
namespace {

std::atomic<std::uint64_t> salt{0};  // never 1

struct generator {
  std::uint64_t salt = 1;  // never equal to the process's salt: not seeded yet
  std::uint64_t state = 0;
};
// A child of fork() inherits the state; its new salt causes a new seed.
constinit thread_local generator own_numbers;

[[gnu::noinline]] void seed_own(std::uint64_t now) {
  std::random_device device;
  own_numbers.state = (std::uint64_t{device()} << 32 | device()) ^ now;
  own_numbers.salt = now;
}

/// Runs in the child before fork() returns there, so it must not lock or allocate.
void after_fork() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t own = random_numbers::mixed(static_cast<std::uint64_t>(now)) ^
                            static_cast<std::uint64_t>(getpid());
  salt.store(random_numbers::mixed(salt.load(std::memory_order_relaxed) + own) | 2,
             std::memory_order_relaxed);
}

// A child made by clone() or vfork(), which skip this handler, must not use the library.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { after_fork(); });

}  // namespace

std::uint64_t fork_salt() noexcept { return salt.load(std::memory_order_relaxed); }

random_numbers::random_numbers() : state_(own_numbers.state) {
  if (const std::uint64_t now = fork_salt(); own_numbers.salt != now) [[unlikely]]
    seed_own(now);
}

}  // namespace weir::detail
