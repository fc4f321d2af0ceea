#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "https_connection.hpp"
#include "vendor_limits.hpp"

namespace throttled {

struct client_options {
  std::string host;
  std::string port = "443";
  std::string account;  ///< whose allowance it is: the subject of the limits

  int attempts = 5;                                ///< of one call, at the most
  std::chrono::milliseconds timeout{5000};         ///< of connecting, and of one exchange
  std::chrono::milliseconds longest_wait{30'000};  ///< for a place, and then for a turn
  std::chrono::milliseconds idle{4000};            ///< a connection is not used again after that

  /// How long a dead process's places stay taken; two thirds of it at the least. Within that its
  /// last calls have to be over at the vendor: so it is not below one and a half times the timeout.
  std::chrono::milliseconds lease{7500};
  /// A turn is booked when it is not further away than this: what is booked is lost with the
  /// process, and to a pause.
  std::chrono::milliseconds look_ahead{40};

  /// Just before the last look, after which the request goes out: to put a fresh signature or a
  /// trace's name into it. At times more than once.
  std::function<void(http_request&)> prepare = [](http_request&) {};
  /// The vendor has asked for a pause, and the whole fleet knows of it now.
  std::function<void()> paused = [] {};
  /// An attempt has ended before it was sent, or answered, because its place was lost.
  std::function<void()> displaced = [] {};
};

/// No place or no turn within client_options::longest_wait.
struct too_busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Calls a vendor over HTTPS within its limits, together with all other processes that do so for
/// the same account and with the same store. Never more at once, never more per second, than the
/// vendor allows, and nothing while it wants to be left alone.
///
/// For one thread, or a strand: everything runs on the store's executor. Calls may overlap; they
/// share the connections.
class throttled_client {
 public:
  /// Throws std::invalid_argument if `at_once` is not below `per_second` and `saved_up`, or the
  /// lease too short.
  throttled_client(const weir::store& store, boost::asio::ssl::context& tls,
                   const vendor_limits& limits, client_options options);

  /// Returns the vendor's response, with any status. Makes the call again if the vendor answered
  /// 429, or if the connection broke and the request may be repeated. Throws the error of the last
  /// attempt, too_busy, or an error of weir. The caller keeps the request until then, as a named
  /// object: g++ 12 destroys some temporaries inside a co_await expression twice.
  boost::asio::awaitable<http_response> call(http_request& request);

  /// Opens so many connections beforehand.
  boost::asio::awaitable<void> connect(int connections);

 private:
  using connection = std::unique_ptr<https_connection>;

  boost::asio::awaitable<weir::lease> enter();
  boost::asio::awaitable<http_response> while_held(const weir::lease& place, http_request& request,
                                                   bool& sent);
  boost::asio::awaitable<http_response> attempt(const weir::lease& place, http_request& request,
                                                bool& sent);
  boost::asio::awaitable<void> wait_for_turn();
  boost::asio::awaitable<void> look_up();
  boost::asio::awaitable<connection> open();
  connection take_idle();

  const client_options options_;
  boost::asio::ssl::context& tls_;
  const weir::concurrency_limiter gate_;
  const weir::limiter limiter_;
  addresses addresses_;
  std::vector<connection> idle_;  // no more than there are places
};

}  // namespace throttled
