#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>

namespace demo {

/// One keep-alive connection to the vendor. Errors, and an answer that does not come in time, are
/// thrown as boost::system::system_error.
class http_client {
 public:
  explicit http_client(const boost::asio::any_io_executor& executor) : stream_(executor) {}

  struct reply {
    bool ok = false;                      ///< 200; else it was 429
    std::chrono::seconds retry_after{0};  ///< what the vendor asks for with a 429
  };

  boost::asio::awaitable<void> connect(boost::asio::ip::tcp::endpoint server);
  boost::asio::awaitable<reply> call();

 private:
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace demo
