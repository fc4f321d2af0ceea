#include "weir/detail/operation_memory.hpp"

#include <cstdint>
#include <new>

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
namespace {

/// The first bytes of a block that is kept.
struct kept_block {
  kept_block* next;
};

// Blocks have sizes in steps of `step`; larger ones are not kept.
constexpr std::size_t step = 64;
constexpr std::size_t sizes = 33;
constexpr std::size_t most_kept = 1024 * 1024;  // bytes per thread

constexpr std::size_t steps_of(std::size_t bytes) noexcept { return (bytes + step - 1) / step; }

/// The address sanitizer takes a use of a kept block for what it is. The link stays readable, for
/// the leak sanitizer, too.
void forbid([[maybe_unused]] kept_block* b, [[maybe_unused]] std::size_t steps) noexcept {
#ifdef WEIR_ADDRESS_SANITIZER
  ASAN_POISON_MEMORY_REGION(b + 1, steps * step - sizeof(kept_block));
#endif
}
void permit([[maybe_unused]] kept_block* b, [[maybe_unused]] std::size_t steps) noexcept {
#ifdef WEIR_ADDRESS_SANITIZER
  ASAN_UNPOISON_MEMORY_REGION(b, steps * step);
#endif
}

enum class phase : std::uint8_t { fresh, keeping, ended };

/// What one thread keeps. Trivial, so that operations that are freed late, by destructors of other
/// thread-local objects, still find it.
struct kept {
  kept_block* first[sizes];  // by the number of steps
  std::size_t bytes;
  phase now;
};
constinit thread_local kept own{};

/// Frees what the thread has kept when the thread ends.
struct last_act {
  ~last_act() {
    own.now = phase::ended;
    for (std::size_t steps = 0; steps < sizes; ++steps) {
      while (kept_block* const b = own.first[steps]) {
        own.first[steps] = b->next;
        permit(b, steps);
        ::operator delete(b);
      }
    }
  }
};

void keep(kept& by, void* block, std::size_t steps) noexcept {
  auto* const b = ::new (block) kept_block{by.first[steps]};
  by.first[steps] = b;
  by.bytes += steps * step;
  forbid(b, steps);
}

// The common cases call no function, so they save no registers.

[[gnu::noinline]] void* allocate_new(std::size_t bytes) { return ::operator new(bytes); }

/// For a thread's first block, a block that is not kept, and one that is freed late.
[[gnu::noinline]] void free_or_begin(void* block, std::size_t steps) noexcept {
  const bool is_first = own.now == phase::fresh && steps < sizes;
  if (!is_first) return ::operator delete(block);
  thread_local last_act at_end;
  static_cast<void>(&at_end);
  own.now = phase::keeping;
  keep(own, block, steps);
}

}  // namespace

void* allocate_operation(std::size_t size) {
  const std::size_t steps = steps_of(size);
  if (steps >= sizes) return allocate_new(size);
  kept& mine = own;
  kept_block* const b = mine.first[steps];
  if (b == nullptr) return allocate_new(steps * step);
  mine.first[steps] = b->next;
  mine.bytes -= steps * step;
  permit(b, steps);
  return b;
}

void free_operation(void* block, std::size_t size) noexcept {
  const std::size_t steps = steps_of(size);
  kept& mine = own;
  if (steps >= sizes || mine.bytes + steps * step > most_kept || mine.now != phase::keeping) {
    return free_or_begin(block, steps);
  }
  keep(mine, block, steps);
}

}  // namespace weir::detail
