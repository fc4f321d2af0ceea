#include "weir/detail/operation_memory.hpp"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ADDRESS_SANITIZER
#endif
#endif
#ifdef WEIR_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace weir::detail {

constinit thread_local kept_blocks kept{};

namespace {

constexpr std::size_t step = kept_blocks::step;
constexpr std::size_t most_kept = 1024 * 1024;  // bytes per thread

#ifdef WEIR_ADDRESS_SANITIZER
// Here the address sanitizer reports the use of a kept block. `kept` stays empty, so that all
// blocks pass the functions below. The link stays readable, also for the leak sanitizer.
constinit thread_local kept_blocks watched{};

kept_blocks& own() noexcept { return watched; }
void forbid(void* block, std::size_t steps) noexcept {
  ASAN_POISON_MEMORY_REGION(static_cast<kept_block*>(block) + 1, steps * step - sizeof(kept_block));
}
void permit(void* block, std::size_t steps) noexcept {
  ASAN_UNPOISON_MEMORY_REGION(block, steps * step);
}
#else
kept_blocks& own() noexcept { return kept; }
void forbid(void*, std::size_t) noexcept {}
void permit(void*, std::size_t) noexcept {}
#endif

enum class phase : std::uint8_t { fresh, keeping, ended };
constinit thread_local phase cache_phase = phase::fresh;

/// Frees what the thread has kept when the thread ends.
struct thread_exit_cleanup {
  ~thread_exit_cleanup() {
    cache_phase = phase::ended;
    for (std::size_t steps = 0; steps < kept_blocks::sizes; ++steps) {
      while (void* const b = own().take(steps)) {
        permit(b, steps);
        ::operator delete(b);
      }
    }
    own().room = 0;
  }
};

}  // namespace

void* allocate_new(std::size_t size) {
  const std::size_t steps = kept_blocks::steps_of(size);
  if (void* const b = own().take(steps)) {
    permit(b, steps);
    return b;
  }
  return ::operator new(steps < kept_blocks::sizes ? steps * step : size);
}

void free_or_begin(void* block, std::size_t size) noexcept {
  const std::size_t steps = kept_blocks::steps_of(size);
  if (cache_phase == phase::fresh && steps < kept_blocks::sizes) {
    thread_local thread_exit_cleanup at_end;
    static_cast<void>(&at_end);
    cache_phase = phase::keeping;
    own().room = most_kept;
  }
  if (!own().keep(block, steps)) return ::operator delete(block);
  forbid(block, steps);
}

}  // namespace weir::detail
