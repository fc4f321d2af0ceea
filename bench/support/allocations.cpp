#include "support/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};

// Not an increment: that would lock the bus. The benchmarks allocate in one thread only.
void* counted(void* allocated) {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
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

// aligned_alloc wants a multiple of the alignment.
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto a = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(a, (size + a) / a * a));
}
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
