#pragma once

#include <atomic>

namespace weir::detail {

/// A mutex for the paths of every check. Locking it while it is free is one atomic instruction,
/// inline, and so is unlocking it: a third of the instructions of std::mutex, in a tenth of its
/// size. A thread that finds it locked sleeps. The algorithm is the third mutex of Ulrich Drepper,
/// "Futexes Are Tricky".
class light_mutex {
 public:
  light_mutex() noexcept = default;
  light_mutex(const light_mutex&) = delete;
  light_mutex& operator=(const light_mutex&) = delete;

  void lock() noexcept {
    if (!try_lock()) wait();
  }
  bool try_lock() noexcept {
    state found = state::unlocked;
    return state_.compare_exchange_strong(found, state::locked, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// Another thread may lock and destroy the mutex as soon as it is unlocked: wake() uses its
  /// address only.
  void unlock() noexcept {
    if (state_.exchange(state::unlocked, std::memory_order_release) == state::awaited) wake();
  }

 private:
  enum class state : int { unlocked, locked, awaited };  // awaited: somebody may sleep

  // Not inline: the common case would save registers for them.

  /// Leaves the mutex awaited: others may sleep, too.
  [[gnu::noinline]] void wait() noexcept {
    while (state_.exchange(state::awaited, std::memory_order_acquire) != state::unlocked) {
      state_.wait(state::awaited, std::memory_order_relaxed);
    }
  }
  [[gnu::noinline]] void wake() noexcept { state_.notify_one(); }

  std::atomic<state> state_ = state::unlocked;
};

}  // namespace weir::detail
