// A check is allowed, is refused, or ends with an error: the store gave no answer. The error's
// condition says whether the request may have counted, and so whether to try again.
//
//     error_handling [redis://127.0.0.1:6379]
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::rethrow;

// With this token nothing is thrown: `auto [ec, decision] = co_await ...`.
constexpr auto as_tuple = asio::as_tuple(asio::deferred);

namespace {

enum class advice { do_not_retry, may_retry, retry_could_count_twice };

advice what_to_do(weir::error_code ec) {
  // First: not_counted holds for wrong input too, where trying again is safe but pointless.
  if (ec == weir::condition::invalid_input) return advice::do_not_retry;
  if (ec == weir::condition::not_counted) return advice::may_retry;
  // may_have_counted, or a cancelled call: the request may have counted.
  return advice::retry_could_count_twice;
}

asio::awaitable<void> mistakes(weir::store store) {
  weir::limiter limiter{store, "error-handling-example",
                        weir::token_bucket{.capacity = 10, .refill = weir::per_second(5)}};

  // A cost above the capacity can never pass. That is an error: waiting would not help.
  auto [ec, d] = co_await limiter.record("alice", {.cost = 11}, as_tuple);
  std::cout << "cost 11 of 10: " << ec.message() << "\n";
  expect(ec == weir::error::cost_exceeds_limit, "a cost above the capacity");
  expect(what_to_do(ec) == advice::do_not_retry, "a mistake in the call");

  // Mistakes in a policy, a rate or a URL are thrown at once, where they are given.
  try {
    weir::limiter broken{store, "error-handling-example",
                         weir::token_bucket{.capacity = 10, .refill = weir::per_second(0)}};
    expect(false, "a rate of zero");
  } catch (const boost::system::system_error& e) {
    std::cout << "rate 0: " << e.what() << "\n";
    expect(e.code() == weir::error::invalid_policy, "a rate of zero");
  }
  expect(weir::rate::try_parse("ten per second").error() == weir::error::invalid_rate, "words");
}

// Without a token, co_await throws.
asio::awaitable<void> exceptions(weir::store store) {
  weir::limiter limiter{store, "error-handling-example",
                        weir::fixed_window{.limit = 10, .window = 1min}};
  bool thrown = false;
  try {
    co_await limiter.record("");
  } catch (const boost::system::system_error& e) {
    std::cout << "no subject: " << e.code().message() << "\n";
    thrown = e.code() == weir::error::invalid_subject;
  }
  expect(thrown, "an empty subject");
}

// No server answers here. Every call has a deadline that includes connecting, so this one ends.
asio::awaitable<void> timeout() {
  weir::store nowhere = weir::open_store(co_await asio::this_coro::executor,
                                         "unix:///nonexistent/weir/socket");
  weir::limiter limiter{nowhere, "error-handling-example",
                        weir::fixed_window{.limit = 10, .window = 1min}};

  auto [ec, d] = co_await limiter.record("alice", {.timeout = 100ms}, as_tuple);
  std::cout << "no server: " << ec.message() << "\n";
  expect(ec == weir::error::connection_refused, "nobody listens there, and nothing was sent");
  expect(what_to_do(ec) == advice::may_retry, "nothing sent, nothing counted");
}

// May a call go out while the store does not answer? With a failure policy, the limiter decides:
// such failures are then no errors, and the decision's source says where the decision came from.
asio::awaitable<void> in_doubt() {
  weir::store nowhere = weir::open_store(co_await asio::this_coro::executor,
                                         "unix:///nonexistent/weir/socket");
  const weir::fixed_window policy{.limit = 10, .window = 1h};

  weir::limiter open{
      nowhere, "error-handling-example", policy, {.on_failure = weir::on_failure::open}};
  weir::decision d = co_await open.record("alice", {.timeout = 50ms});
  std::cout << "no server, open: " << (d.allowed ? "allowed" : "refused") << "\n";
  expect(d.allowed && d.source == weir::source::fallback, "open lets everything through");

  // Five processes share the limit of ten: while the store fails, each allows two.
  weir::limiter careful{nowhere,
                        "error-handling-example",
                        policy,
                        {.on_failure = weir::on_failure::fallback, .process_count = 5}};
  for (int i = 1; i <= 3; ++i) {
    d = co_await careful.record("alice", {.timeout = 50ms});
    std::cout << "no server, fallback, request " << i << ": " << (d.allowed ? "allowed" : "refused")
              << "\n";
    expect(d.allowed == (i <= 2) && d.source == weir::source::fallback, "its share of the limit");
  }
}

asio::awaitable<void> wait_for_answer(weir::limiter limiter) {
  co_await limiter.record("alice", {.timeout = 10s});
}

// A caller that loses interest cancels its own call; others on the same connection notice nothing.
// A coroutine hands its cancellation on to what it awaits.
void cancellation() {
  asio::cancellation_signal stop;  // first, so that it outlives all that listens to it
  asio::io_context context;
  weir::store nowhere = weir::open_store(context.get_executor(), "unix:///nonexistent/weir/socket");
  weir::limiter limiter{nowhere, "error-handling-example",
                        weir::fixed_window{.limit = 10, .window = 1min}};

  weir::error_code result;
  asio::co_spawn(context, wait_for_answer(limiter),
                 asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr failed) {
                   try {
                     if (failed) std::rethrow_exception(failed);
                   } catch (const boost::system::system_error& e) {
                     result = e.code();
                   }
                   nowhere.close();
                 }));
  asio::post(context, [&stop] { stop.emit(asio::cancellation_type::terminal); });
  context.run();
  std::cout << "cancelled: " << result.message() << "\n";
  expect(result == asio::error::operation_aborted, "the error of every cancelled call in Asio");
}

asio::awaitable<void> example(weir::store store) {
  co_await mistakes(store);
  co_await exceptions(store);
  co_await timeout();
  co_await in_doubt();

  expect(what_to_do(weir::error::outcome_unknown) == advice::retry_could_count_twice,
         "sent, and then the connection was lost");
  expect(what_to_do(weir::error::no_reply) == advice::retry_could_count_twice,
         "sent, and no answer before the deadline");
  expect(what_to_do(weir::error::overloaded) == advice::may_retry, "never sent");
}

}  // namespace

int main(int argc, char** argv) try {
  asio::io_context context;
  asio::co_spawn(context,
                 example(weir::open_store(context.get_executor(), examples::store_url(argc, argv))),
                 rethrow);
  context.run();

  cancellation();
} catch (const std::exception& e) {
  return examples::failed(e);
}
