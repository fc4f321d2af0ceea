#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <future>
#include <string>
#include <thread>

#include "certificate.hpp"
#include "ledger.hpp"

namespace throttled {

/// Headers in which callers tell the ledger their times, in nanoseconds of the steady clock. See
/// ledger::call.
inline constexpr char asked_header[] = "X-Asked-At";
inline constexpr char heard_header[] = "X-Heard-At";

/// The third party whose API is called: an HTTPS server on a free loopback port, in a thread of its
/// own. It takes 100 ms for each call that it serves, answers 429 with a Retry-After to the others,
/// and tells in X-RateLimit and RateLimit headers what is left.
class vendor {
 public:
  vendor(const vendor_limits& limits, ledger books);
  ~vendor();

  std::uint16_t port() const;
  /// A client that trusts this chain trusts this vendor.
  const std::string& certificate_chain() const noexcept { return certificate_.chain; }

  /// Waits until the measured time is over. Throws std::runtime_error if that takes longer than
  /// `patience`.
  vendor_report report(std::chrono::seconds patience);

 private:
  boost::asio::awaitable<void> accept_connections();
  boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);
  boost::asio::awaitable<void> announce_end();

  const vendor_limits limits_;
  const certificate certificate_;
  ledger books_;  // touched by the server's thread alone
  std::promise<vendor_report> over_;

  boost::asio::io_context context_{1};
  boost::asio::ssl::context tls_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

}  // namespace throttled
