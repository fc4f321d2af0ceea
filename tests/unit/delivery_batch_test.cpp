// How a server's answers are handed to their handlers, many with one posted function.
#include "check/delivery_batch.hpp"

#include <list>
#include <new>

#include "check/flight.hpp"
#include "support/run.hpp"

namespace delivery_batch_test {

namespace asio = boost::asio;
using namespace weir::detail;

/// A finished check with a handler of the test's own.
class finished final : public check_of<record_request> {
 public:
  explicit finished(std::function<void(delivery)> handler)
      : check_of(nullptr, {}), handler_(std::move(handler)) {}

  void finish(delivery how) override { handler_(how); }

 private:
  std::function<void(delivery)> handler_;
};

/// An executor that finds no memory for its second function.
struct short_of_memory {
  asio::io_context::executor_type inside;
  int* posted;

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return inside.context();
  }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  template <class F>
  void execute(F&& f) const {
    if (++*posted == 2) throw std::bad_alloc();
    asio::post(inside, std::forward<F>(f));
  }
  bool operator==(const short_of_memory&) const noexcept = default;
};

struct fixture {
  asio::io_context io;
  std::list<finished> checks;
  check_list done;
  std::vector<int> order;  // the checks that were delivered

  /// `handler` is called after each check was noted.
  void finish(int count, const std::function<void(int)>& handler) {
    finish(io.get_executor(), count, handler);
  }
  void finish(const asio::any_io_executor& executor, int count,
              const std::function<void(int)>& handler) {
    for (int i = 0; i < count; ++i) {
      checks.emplace_back([this, i, handler](delivery how) {
        BOOST_TEST_REQUIRE((how == delivery::dispatch));
        order.push_back(i);
        handler(i);
      });
      done.push_back(checks.back());
    }
    delivery_batch::post(executor, std::move(done));
  }
};

BOOST_AUTO_TEST_SUITE(delivery_batch_suite)

// The server was idle until all callers of a hot key had their answers.
BOOST_FIXTURE_TEST_CASE(what_the_first_handlers_start_runs_before_the_rest_is_delivered, fixture) {
  std::size_t delivered = 0;
  finish(2000, [&](int i) {
    if (i == 0) asio::post(io, [&] { delivered = order.size(); });
  });
  io.run();
  BOOST_TEST(delivered >= 1u);
  BOOST_TEST(delivered < 1000u);
  BOOST_TEST(order.size() == 2000u);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_FIXTURE_TEST_CASE(handlers_that_throw_lose_no_check_and_change_no_order, fixture) {
  finish(2000, [&](int i) {
    if (i % 500 == 499 || i == 512) throw std::runtime_error("from a handler");
  });
  BOOST_TEST(weir::test::run_out_past_exceptions(io) == 5);
  BOOST_TEST(order.size() == 2000u);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_FIXTURE_TEST_CASE(a_rest_without_memory_to_post_it_is_delivered_at_once, fixture) {
  int posted = 0;
  finish(short_of_memory{io.get_executor(), &posted}, 2000, [](int) {});
  io.run();
  BOOST_TEST(posted == 2);
  BOOST_TEST(order.size() == 2000u);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_AUTO_TEST_CASE(a_rest_that_no_thread_took_goes_with_the_context) {
  std::optional<asio::io_context> io(std::in_place);
  std::list<finished> checks;
  check_list done;
  int dispatched = 0, discarded = 0;
  for (int i = 0; i < 2000; ++i) {
    checks.emplace_back([&](delivery how) {
      ++(how == delivery::discard ? discarded : dispatched);
      if (dispatched == 1) io->stop();
    });
    done.push_back(checks.back());
  }
  delivery_batch::post(io->get_executor(), std::move(done));
  io->run();
  BOOST_TEST(dispatched > 0);
  BOOST_TEST(discarded == 0);
  io.reset();
  BOOST_TEST(dispatched < 2000);
  BOOST_TEST(dispatched + discarded == 2000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace delivery_batch_test
