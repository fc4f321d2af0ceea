#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <thread>

#include "../shared/meter.hpp"

namespace demo {

/// The third party whose API is called: an HTTP server on a free loopback port, in a thread of its
/// own.
///
/// It enforces its limit strictly, as a sliding log: a request is answered 200 if fewer than
/// `limit` were so in the second (the window) before it, by the server's clock when it has read the
/// request. Any other is answered 429 with a Retry-After, and does not count. There is no
/// tolerance: of `limit + 1` requests within a second, one gets a 429.
class vendor {
 public:
  static constexpr std::chrono::seconds window{1};

  explicit vendor(int limit);
  ~vendor();

  std::uint16_t port() const;

  struct counts {
    std::int64_t ok = 0;
    std::int64_t refused = 0;
  };
  /// Since the server started. May be called from any thread.
  counts seen() const noexcept { return {ok_.load(), refused_.load()}; }

 private:
  boost::asio::awaitable<void> accept_connections();
  boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);
  std::chrono::seconds admit(examples::vendor_time now);

  examples::window_meter admitted_;  // touched by the server's thread alone
  std::atomic<std::int64_t> ok_{0};
  std::atomic<std::int64_t> refused_{0};

  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

}  // namespace demo
