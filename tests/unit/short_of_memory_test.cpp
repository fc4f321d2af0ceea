// Calls in which one allocation fails. Replaces operator new.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pipeline_fixture.hpp"
#include "weir/weir.hpp"
#include "window_reply.hpp"

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
using namespace std::chrono_literals;

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
 public:
  asio::io_context io;
  store memory = make_memory_store(io.get_executor());

  /// Makes the call, in which the allocation with this number fails.
  template <class Call>
  result call_with_failure(long number, Call&& call) {
    result r;
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
void for_each_allocation(const std::function<void(long)>& test) {
  for (long number = 0;; ++number) {
    has_failed = false;
    BOOST_TEST_CONTEXT("allocation " << number) { test(number); }
    if (!has_failed) return;
  }
}

const auto record = [](const limiter& l, handler h) { l.record("a", h); };

/// Makes a record with each allocation failing, and then again in the same world. Either call ends
/// once.
void expect_one_end(const tiers& policies, const limiter_options& options = {}) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", policies, options);
    const result first = w.call_with_failure(number, [&](handler h) { record(l, h); });
    BOOST_TEST(first.answers == (w.has_thrown ? 0 : 1));
    BOOST_TEST(first.handlers == 0);
    const result second = w.call([&](handler h) { record(l, h); });
    BOOST_TEST(second.answers == 1);
    BOOST_TEST(!second.ec, second.ec.message());
    BOOST_TEST(second.answer.allowed);
  });
}

constexpr token_bucket bucket{.capacity = 10, .refill = per_second(1)};
constexpr sliding_log log_of_a_minute{.limit = 10, .window = 1min};

}  // namespace

BOOST_AUTO_TEST_SUITE(short_of_memory_suite)

BOOST_AUTO_TEST_CASE(a_record_that_finds_no_memory_ends) {
  expect_one_end(tiers(bucket));
  expect_one_end(tiers(log_of_a_minute));
  expect_one_end(tiers(log_of_a_minute, bucket));
  expect_one_end(tiers(bucket), {.deny_cache_subjects = 8});
  expect_one_end(tiers(bucket), {.local_units = 5});
}

BOOST_AUTO_TEST_CASE(a_record_without_memory_has_counted_nothing) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", log_of_a_minute);
    const result r = w.call_with_failure(number, [&](handler h) { record(l, h); });
    if (r.answers == 1 && has_failed && r.ec) BOOST_TEST((r.ec == error::store_full));
    const result seen = w.call([&](handler h) { l.fetch("a", h); });
    BOOST_TEST(seen.answer.used == (r.answer.allowed ? 1 : 0));
  });
}

BOOST_AUTO_TEST_CASE(a_settlement_that_found_no_memory_can_be_repeated) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", log_of_a_minute);
    const result taken = w.call([&](handler h) { l.record("a", {.cost = 5}, h); });
    const auto settle = [&](handler h) { l.settle("a", taken.answer, 7, h); };
    const result first = w.call_with_failure(number, settle);
    const result second = w.call(settle);
    BOOST_TEST((first.answer.allowed != second.answer.allowed));
    BOOST_TEST(second.answer.used == 7);
  });
}

// The call stayed first in line without its reply, and took the reply of the next call.
BOOST_AUTO_TEST_CASE(a_reply_that_finds_no_memory_shifts_no_later_reply) {
  for_each_allocation([&](long number) {
    redis::test::connected_fixture f;
    const auto& first = f.submit("a");
    f.write();
    const auto& second = f.submit("b");
    f.write();
    const std::string full = redis::test::window_reply({{4'000'000, 3}});
    std::ranges::copy(full, f.reader.prepare(full.size()).begin());
    f.reader.commit(full.size());
    bool goes_on = true;
    before_failure = number;
    try {
      goes_on = f.line.consume(f.reader, f.now) != redis::pipeline::stream_state::broken;
    } catch (const std::bad_alloc&) {
    }
    before_failure = none;
    f.line.take_done();
    if (goes_on) f.answer(0);
    BOOST_TEST(!first.answer.allowed);
    BOOST_TEST(second.answer.allowed == goes_on);
  });
}

// The operation stayed for ever, and kept its handler's context busy.
BOOST_AUTO_TEST_CASE(a_slot_without_memory_leaves_no_operation) {
  world w;
  const limiter l(w.memory, "r", bucket);
  asio::cancellation_signal stop;
  const auto record_until_stop = [&](handler h) {
    l.record("a", asio::bind_cancellation_slot(stop.slot(), h));
  };
  next_aligned_fails = true;
  const result first = w.call(record_until_stop);
  BOOST_TEST(w.has_thrown);
  BOOST_TEST(first.answers == 0);
  BOOST_TEST(first.handlers == 0);
  const result second = w.call(record_until_stop);
  BOOST_TEST(second.answers == 1);
  BOOST_TEST(second.answer.remaining == 9);
}

BOOST_AUTO_TEST_SUITE_END()
