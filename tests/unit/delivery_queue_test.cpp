// How a memory store hands its answers to their handlers, many with one posted function.
#include <future>

#include "support/run.hpp"

namespace delivery_queue_test {

namespace asio = boost::asio;

constexpr weir::token_bucket plenty{.capacity = 1'000'000, .refill = weir::per_second(1'000'000)};

/// A limiter of a memory store in that context.
template <class Context>
weir::limiter limiter_in(Context& context) {
  return {weir::make_memory_store(context.get_executor()), "r", plenty};
}

BOOST_AUTO_TEST_SUITE(delivery_queue_suite)

// It hung: one function held both answers, and the other thread had nothing to do.
BOOST_AUTO_TEST_CASE(a_handler_may_wait_for_another_if_there_is_a_second_thread) {
  asio::thread_pool threads(2);
  weir::limiter limiter = limiter_in(threads);
  std::promise<void> told;
  // Both are answered before either is delivered.
  asio::post(threads, [&] {
    limiter.record("a", {}, [&](weir::error_code, weir::decision) { told.get_future().wait(); });
    limiter.record("b", {}, [&](weir::error_code, weir::decision) { told.set_value(); });
  });
  threads.join();
}

BOOST_AUTO_TEST_CASE(a_handler_that_runs_the_context_gets_the_answers_before_its_own_call) {
  asio::io_context io;
  weir::limiter limiter = limiter_in(io);
  std::vector<int> order;
  const auto note = [&](int i) {
    return [&order, i](weir::error_code, weir::decision) { order.push_back(i); };
  };
  limiter.record("a", {}, [&](weir::error_code, weir::decision) {
    limiter.record("a", {}, note(1000));
    io.poll();
    BOOST_TEST(order.size() == 10u);
  });
  for (int i = 1; i < 10; ++i) limiter.record("a", {}, note(i));
  io.run();
  BOOST_TEST(order.size() == 10u);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_AUTO_TEST_CASE(handlers_that_throw_change_no_order) {
  asio::io_context io;
  weir::limiter limiter = limiter_in(io);
  std::vector<int> order;
  for (int i = 0; i < 300; ++i) {
    limiter.record("a", {}, [&order, i](weir::error_code, weir::decision) {
      order.push_back(i);
      if (i % 7 == 3) throw std::runtime_error("from a handler");
    });
  }
  BOOST_TEST(weir::test::run_out_past_exceptions(io) == 43);
  BOOST_TEST(order.size() == 300u);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_AUTO_TEST_CASE(answers_that_no_thread_took_go_with_the_context) {
  const auto held = std::make_shared<int>();
  std::optional<asio::io_context> io(std::in_place);
  weir::limiter limiter = limiter_in(*io);
  for (int i = 0; i < 100; ++i) {
    limiter.record("a", {}, [held](weir::error_code, weir::decision) { BOOST_ERROR("was run"); });
  }
  io.reset();
  BOOST_TEST(held.use_count() == 1);
  // It crashed: a wrong subject is told by way of the store's executor.
  limiter.record("", {}, [held](weir::error_code, weir::decision) { BOOST_ERROR("was run"); });
  limiter.record("a", {}, [held](weir::error_code, weir::decision) { BOOST_ERROR("was run"); });
  limiter.acquire("a", {}, [held](weir::error_code, weir::decision) { BOOST_ERROR("was run"); });
  limiter.reset("a", [held](weir::error_code) { BOOST_ERROR("was run"); });
  BOOST_TEST(held.use_count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace delivery_queue_test
