// What the examples have in common and is not their subject. A service has its own main(); how it
// opens a store there, tutorial/1_first_check.cpp shows in full.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <weir/weir.hpp>

namespace examples {

namespace asio = boost::asio;

/// Every example is run as a test, so it looks at its own numbers.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

inline asio::awaitable<void> sleep_for(std::chrono::microseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::deferred);
}

/// For co_spawn: what a coroutine throws, io_context::run() throws.
inline void rethrow(std::exception_ptr failed) {
  if (failed) std::rethrow_exception(failed);
}

/// The store that the command line names, or one in memory.
inline std::string store_url(int argc, char** argv) { return argc > 1 ? argv[1] : "memory://"; }

/// For main(): says what was wrong, and returns what main() should.
inline int failed(const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}

/// The main() of an example that is one coroutine. The coroutine gets the only copy of the store:
/// when it is done, the store closes, and run() returns.
inline int run(int argc, char** argv, asio::awaitable<void> (*example)(weir::store)) try {
  asio::io_context context;
  asio::co_spawn(context, example(weir::open_store(context.get_executor(), store_url(argc, argv))),
                 rethrow);
  context.run();
  return 0;
} catch (const std::exception& e) {
  return failed(e);
}

}  // namespace examples
