// What a check takes from the heap in a steady state: nothing. Counts operator new.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include "support/stores.hpp"
#include "weir/weir.hpp"

// The thread sanitizer brings an operator new of its own, and no other may stand beside it: then
// nothing is counted, and the test only looks for races.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define WEIR_TEST_OWN_OPERATOR_NEW 0
#endif
#endif
#ifndef WEIR_TEST_OWN_OPERATOR_NEW
#define WEIR_TEST_OWN_OPERATOR_NEW 1
#endif

namespace {

std::uint64_t allocations = 0;

}  // namespace

#if WEIR_TEST_OWN_OPERATOR_NEW

namespace {

void* counted(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}

}  // namespace

// The arrays' too: a sanitizer brings its own, which do not call the others.
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

#endif

namespace {

namespace asio = boost::asio;

constexpr std::uint64_t callers = 1024;

/// So many coroutines that check in a loop, each its own subject, or one for all.
class crowd {
 public:
  crowd(const std::string& url, bool is_hot)
      : is_hot_(is_hot),
        store_(weir::open_store(context_.get_executor(), url)),
        limiter_(store_, "r",
                 weir::token_bucket{.capacity = 1'000'000, .refill = weir::per_second(1000)}) {
    for (std::uint64_t i = 0; i < callers; ++i) {
      asio::co_spawn(context_, caller(i), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
    }
  }

  /// The allocations of so many checks for each caller.
  std::uint64_t allocations_of(std::uint64_t each) {
    const std::uint64_t before = allocations;
    stop_at_ += each * callers;
    context_.restart();
    context_.run();
    return allocations - before;
  }

 private:
  asio::awaitable<void> caller(std::uint64_t index) {
    const std::string subject = "account-" + std::to_string(is_hot_ ? 0 : index);
    for (;;) {
      const weir::decision d = co_await limiter_.record(subject);
      BOOST_REQUIRE(d.allowed);
      if (++checks_ == stop_at_) context_.stop();
    }
  }

  const bool is_hot_;
  asio::io_context context_{1};
  weir::store store_;
  weir::limiter limiter_;
  std::uint64_t checks_ = 0;
  std::uint64_t stop_at_ = 0;
};

constexpr std::uint64_t rounds = 50;

/// After some rounds, in which buffers and caches grow.
std::uint64_t steady_allocations(const std::string& store, bool is_hot) {
  crowd all(weir::test::empty_store_url(store), is_hot);
  all.allocations_of(rounds);
  return all.allocations_of(rounds);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(allocations_suite)

// Each operation came from the heap and went back there.
BOOST_AUTO_TEST_CASE(a_check_in_a_memory_store_allocates_nothing) {
  BOOST_TEST(steady_allocations("memory", false) == 0u);
}

// Asio allocates a few bytes for each write and read of a strand; many checks share these.
BOOST_AUTO_TEST_CASE(a_check_in_redis_allocates_nothing) {
  for (const bool is_hot : {false, true}) {
    BOOST_TEST(steady_allocations("unix", is_hot) < rounds * callers / 20);
  }
}

BOOST_AUTO_TEST_SUITE_END()
