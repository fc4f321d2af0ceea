#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <weir/concurrency_limiter.hpp>
#include <weir/limiter.hpp>

namespace observed {

namespace asio = boost::asio;

/// What callers saw of their calls, by resource and by what they saw, such as "allowed" or
/// "failed: no_reply".
using tally = std::map<std::string, std::map<std::string, std::uint64_t>>;

/// In JSON, on one line.
std::string to_json(const tally& seen);

/// Coroutines that call a partner and serve clients of their own, and note what they see. They run
/// in one thread.
class callers {
 public:
  /// Starts them.
  callers(weir::limiter clients, weir::limiter partner, weir::concurrency_limiter gate);

  /// Cancels them, and completes when all have ended.
  asio::awaitable<void> stop();

  const tally& seen() const noexcept { return seen_; }

 private:
  void start(asio::awaitable<void> caller);
  asio::awaitable<void> serve_client(int number);
  asio::awaitable<void> call_partner(int number);
  void note(const std::string& resource, const weir::error_code& ec, const weir::decision& d);

  weir::limiter clients_, partner_;
  weir::concurrency_limiter gate_;
  tally seen_;
  std::list<asio::cancellation_signal> signals_;  // one for each caller
  std::size_t running_ = 0;
  asio::steady_timer all_ended_;  // cancelled when the last caller ends
};

}  // namespace observed
