#pragma once

// Lets one allocation fail. Replaces operator new: for one file of a program of its own.
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <new>

#include "support/test.hpp"
#include "weir/weir.hpp"

namespace {

constexpr long none = -1;
long before_failure = none;  // so many allocations succeed before one fails
bool has_failed = false;
bool next_aligned_fails = false;  // of Asio's own memory, such as a cancellation slot's

}  // namespace

// The arrays' too: a sanitizer brings its own, which do not call the others.
void* operator new(std::size_t size) {
  if (before_failure != none && before_failure-- == 0) {
    has_failed = true;
    throw std::bad_alloc{};
  }
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (std::exchange(next_aligned_fails, false)) return nullptr;
  void* memory = nullptr;
  return ::posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) == 0 ? memory
                                                                                  : nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

namespace asio = boost::asio;
using namespace weir;

/// What a call has led to.
struct result {
  int answers = 0;
  int handlers = 0;  // that exist
  error_code ec;
  decision answer;
};

class handler {
 public:
  explicit handler(result& r) noexcept : result_(&r) { ++result_->handlers; }
  handler(const handler& other) noexcept : handler(*other.result_) {}
  ~handler() { --result_->handlers; }

  void operator()(error_code ec, const decision& d) const {
    ++result_->answers;
    result_->ec = ec;
    result_->answer = d;
  }

 private:
  result* result_;
};

/// A store in memory, and what one test does with it.
class world {
  std::deque<result> results_;  // handlers refer to them, up to the end of the context

 public:
  asio::io_context io;
  store memory = make_memory_store(io.get_executor());

  /// Makes the call, in which the allocation with this number fails.
  template <class Call>
  result call_with_failure(long number, Call&& call) {
    result& r = results_.emplace_back();
    before_failure = number;
    try {
      call(handler(r));
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    poll();
    before_failure = none;
    poll();
    return r;
  }

  template <class Call>
  result call(Call&& call) {
    return call_with_failure(none, std::forward<Call>(call));
  }

  bool has_thrown = false;

 private:
  void poll() {
    io.restart();
    for (bool again = true; again;) {
      again = false;
      try {
        io.poll();
      } catch (const std::bad_alloc&) {
        again = true;
      }
    }
  }
};

/// Calls test(number) with 0, 1, 2 and so on, until a call needs no further allocation.
inline void for_each_allocation(const std::function<void(long)>& test) {
  for (long number = 0;; ++number) {
    has_failed = false;
    BOOST_TEST_CONTEXT("allocation " << number) { test(number); }
    if (!has_failed) return;
  }
}

/// Calls function(), in which the allocation with this number fails. True if it threw.
template <class Function>
bool throws_with_failure(long number, Function&& function) {
  bool has_thrown = false;
  before_failure = number;
  try {
    function();
  } catch (const std::bad_alloc&) {
    has_thrown = true;
  }
  before_failure = none;
  return has_thrown;
}

}  // namespace
