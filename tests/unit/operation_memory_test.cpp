// The blocks that a thread keeps for its next operations. Counts what operator new hands out.
#include "weir/detail/operation_memory.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

namespace {

std::atomic<int> taken{0}, given_back{0};

}  // namespace

// The arrays' too: a sanitizer brings its own, which do not call the others.
void* operator new(std::size_t size) {
  ++taken;
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept {
  ++given_back;
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

using weir::detail::allocate_operation;
using weir::detail::free_operation;

constexpr std::size_t size = 600;      // of one operation
constexpr std::size_t block = 640;     // what it takes, in steps of 64
constexpr std::size_t kept = 1 << 20;  // bytes, at most

std::vector<void*> allocate(std::size_t count) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocate_operation(size));
  return blocks;
}
void free_all(const std::vector<void*>& blocks) {
  for (void* const b : blocks) free_operation(b, size);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(operation_memory_suite)

BOOST_AUTO_TEST_CASE(a_freed_block_is_used_again_for_operations_of_its_size) {
  void* const first = allocate_operation(size);
  free_operation(first, size);
  void* const small = allocate_operation(100);
  BOOST_TEST(small != first);
  BOOST_TEST(allocate_operation(size - 10) == first);
  free_operation(first, size - 10);
  free_operation(small, 100);
}

BOOST_AUTO_TEST_CASE(as_many_blocks_as_were_in_use_are_kept_up_to_a_bound) {
  constexpr std::size_t count = 3 * kept / block;
  std::vector<void*> blocks = allocate(count);
  free_all(blocks);
  blocks.clear();
  blocks.reserve(count);
  const int before = taken;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocate_operation(size));
  const auto reused = count - static_cast<std::size_t>(taken - before);
  BOOST_TEST(reused * block <= kept);
  BOOST_TEST((reused + 20) * block > kept);  // other sizes are kept, too
  free_all(blocks);
}

BOOST_AUTO_TEST_CASE(a_block_may_be_freed_by_another_thread_whose_end_gives_it_back) {
  const std::vector<void*> blocks = allocate(100);
  const int before = given_back;
  std::thread([&] {
    free_all(blocks);
    BOOST_TEST(given_back - before < 100);
  }).join();
  BOOST_TEST(given_back - before >= 100);
}

BOOST_AUTO_TEST_CASE(a_large_operation_is_not_kept) {
  void* const large = allocate_operation(1 << 16);
  const int before = given_back;
  free_operation(large, 1 << 16);
  BOOST_TEST(given_back == before + 1);
}

BOOST_AUTO_TEST_SUITE_END()
