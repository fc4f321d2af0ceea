#include "support/allocations.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};

// Not an increment: that would lock the bus. The benchmarks allocate in one thread only.
void count_one() noexcept {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void* counted(void* allocated) {
  count_one();
  if (allocated == nullptr) throw std::bad_alloc();
  return allocated;
}

}  // namespace

namespace bench {

std::uint64_t allocations() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace bench

// The array and nothrow forms call these.
void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(::memalign(static_cast<std::size_t>(alignment), size));
}
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

// Asio allocates by this one what its threads' caches do not have.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* const allocated = ::memalign(alignment, size);
  count_one();
  return allocated;
}
