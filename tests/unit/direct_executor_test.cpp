// A store's own functions run on the executor that it was given.
#include "base/direct_executor.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include "support/test.hpp"

namespace direct_executor_test {

namespace asio = boost::asio;
using weir::detail::direct_executor;

static_assert(asio::execution::is_executor_v<direct_executor>);

struct fixture {
  asio::io_context io;
  asio::any_io_executor usual = io.get_executor();
  asio::any_io_executor other = asio::make_strand(io);  // not that of an io_context
};

BOOST_AUTO_TEST_SUITE(direct_executor_suite)

BOOST_FIXTURE_TEST_CASE(functions_run_in_their_order_in_the_context, fixture) {
  for (const auto& given : {usual, other}) {
    const asio::strand<direct_executor> strand(direct_executor::of(given));
    std::vector<int> order;
    asio::post(strand, [&] {
      asio::post(strand, [&] { order.push_back(3); });
      asio::dispatch(strand, [&] { order.push_back(1); });
      order.push_back(2);
    });
    BOOST_TEST(order.empty());
    io.run();
    io.restart();
    BOOST_TEST(order == (std::vector{1, 2, 3}), boost::test_tools::per_element());
  }
}

BOOST_FIXTURE_TEST_CASE(an_executor_that_never_blocks_runs_nothing_inside_the_call, fixture) {
  for (const auto& given : {usual, other}) {
    const auto may_block = direct_executor::of(given);
    const auto never_blocks = asio::require(may_block, asio::execution::blocking.never);
    BOOST_TEST(
        (asio::query(may_block, asio::execution::blocking) == asio::execution::blocking.possibly));
    BOOST_TEST(
        (asio::query(never_blocks, asio::execution::blocking) == asio::execution::blocking.never));
    bool ran_inside = false, ran_later = false, was_later = false;
    asio::post(given, [&] {
      may_block.execute([&] { ran_inside = true; });
      never_blocks.execute([&] { ran_later = true; });
      was_later = !ran_later;
    });
    io.run();
    io.restart();
    BOOST_TEST(ran_inside);
    BOOST_TEST(was_later);
    BOOST_TEST(ran_later);
  }
}

BOOST_FIXTURE_TEST_CASE(tracked_work_keeps_the_context_running, fixture) {
  for (const auto& given : {usual, other}) {
    std::optional work(
        asio::require(direct_executor::of(given), asio::execution::outstanding_work.tracked));
    io.poll();
    BOOST_TEST(!io.stopped());
    std::optional copy(work);
    work.reset();
    io.poll();
    BOOST_TEST(!io.stopped());
    copy.reset();
    io.poll();
    BOOST_TEST(io.stopped());
    io.restart();
  }
}

BOOST_AUTO_TEST_CASE(functions_run_in_their_order_in_a_thread_pool) {
  asio::thread_pool pool(2);
  const asio::strand<direct_executor> strand(direct_executor::of(pool.get_executor()));
  std::vector<int> order;
  asio::post(strand, [&] {
    asio::post(strand, [&] { order.push_back(3); });
    asio::dispatch(strand, [&] { order.push_back(1); });
    order.push_back(2);
  });
  pool.join();
  BOOST_TEST(order == (std::vector{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(the_context_of_each_executor_is_its_own, fixture) {
  asio::thread_pool pool(1);
  const auto context_of = [](const asio::any_io_executor& given) {
    return &asio::query(direct_executor::of(given), asio::execution::context);
  };
  BOOST_TEST((context_of(usual) == &io));
  BOOST_TEST((context_of(other) == &io));
  BOOST_TEST((context_of(pool.get_executor()) == &pool));
  BOOST_TEST((direct_executor::of(usual) == direct_executor::of(io.get_executor())));
  BOOST_TEST((direct_executor::of(usual) != direct_executor::of(pool.get_executor())));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace direct_executor_test
