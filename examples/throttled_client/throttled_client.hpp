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
  std::string host;  ///< the resource of the limits
  std::string port = "443";
  std::string account;  ///< whose allowance it is: the subject of the limits

  int attempts = 5;                                ///< of one call, at the most
  std::chrono::milliseconds timeout{5000};         ///< of connecting, and of one exchange
  std::chrono::milliseconds longest_wait{30'000};  ///< for a lease, and then for a reservation
  std::chrono::milliseconds idle{4000};  ///< a connection idle for longer is not used again

  /// The duration of a lease: the leases of a dead process lapse after at least two thirds of it.
  /// By then its last calls have to be over at the vendor, so at least one and a half times
  /// `timeout`.
  std::chrono::milliseconds lease{7500};
  /// The client makes no reservation further ahead than this: reservations are lost when the
  /// process dies, or when a cool-down begins.
  std::chrono::milliseconds look_ahead{40};

  /// Called just before the last look at the cool-down, to put a fresh signature or a trace id into
  /// the request. It may be called more than once for a request.
  std::function<void(http_request&)> prepare = [](http_request&) {};
  /// Called when the vendor has asked for a pause and the store has the cool-down.
  std::function<void()> paused = [] {};
  /// Called when an attempt ends, unsent or unanswered, because its lease is lost.
  std::function<void()> displaced = [] {};
};

/// No lease or no reservation within client_options::longest_wait.
struct too_busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Calls a vendor over HTTPS within its limits, which all processes with the same host, account and
/// store share: never more calls at once or per second than the vendor allows, and none in a
/// cool-down.
///
/// For one thread, or a strand: everything runs on the store's executor. Calls may overlap; they
/// share the connections.
class throttled_client {
 public:
  /// Throws std::invalid_argument if `at_once` is not below `per_second` and `saved_up`, or the
  /// lease too short; boost::system::system_error if `host` is no valid resource.
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
  boost::asio::awaitable<http_response> while_held(const weir::lease& lease, http_request& request,
                                                   bool& sent);
  boost::asio::awaitable<http_response> attempt(const weir::lease& lease, http_request& request,
                                                bool& sent);
  boost::asio::awaitable<void> wait_for_reservation();
  boost::asio::awaitable<void> look_up();
  boost::asio::awaitable<connection> open();
  connection take_idle();

  const client_options options_;
  boost::asio::ssl::context& tls_;
  const weir::concurrency_limiter gate_;
  const weir::limiter limiter_;
  addresses addresses_;
  std::vector<connection> idle_;  // at most `at_once`
};

}  // namespace throttled
