#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "net/resolver.hpp"
#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// A byte stream to the server: TCP, TLS over TCP, or a Unix socket. Everything happens on one
/// strand, which the caller is on too. Each operation reports to the listener exactly once, never
/// inside the call; close() makes what is under way report soon.
class stream {
 public:
  using strand = boost::asio::strand<boost::asio::any_io_executor>;

  class listener {
   public:
    /// Kept by operations under way.
    virtual std::shared_ptr<void> keep_alive() = 0;
    virtual void on_opened(error e) = 0;  ///< as connection_core::opened()
    /// As connection_core::received(): zero, tls_failed, or outcome_unknown for any other end.
    virtual void on_received(error e, std::size_t bytes) = 0;
    virtual void on_written(bool ok, std::size_t bytes) = 0;

   protected:
    ~listener() = default;
  };

  /// Throws boost::system::system_error if a TLS file cannot be used.
  stream(const strand& s, const redis_options& options, listener& l);

  /// Resolves the name, tries its addresses one after the other, and shakes hands in TLS.
  /// `elsewhere`: the address that was connected to last goes to the end of the line.
  void open(bool elsewhere);
  void read(std::span<char> room);
  void write(std::string_view bytes);
  void close();

 private:
  using socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, strand>;
  using clock = std::chrono::steady_clock;
  using timer = boost::asio::basic_waitable_timer<clock, boost::asio::wait_traits<clock>, strand>;

  void connect_next();
  void limit_address();
  void set_tcp_options();
  void secure();
  void report_opened(error e);

  strand strand_;
  const redis_options& options_;
  listener& listener_;
  std::optional<boost::asio::ssl::context> tls_context_;

  resolver lookup_;
  resolver::endpoints endpoints_;
  std::size_t first_endpoint_ = 0;  // which of those found is tried first
  std::size_t next_endpoint_ = 0;
  clock::time_point give_up_{};
  error met_{};  // what this attempt would be said to have met, if it ended now
  timer address_timer_;
  bool closed_ = false;     // open() must not go on
  bool connected_ = false;  // to the address before next_endpoint_
  std::optional<socket> socket_;
  std::optional<boost::asio::ssl::stream<socket&>> tls_;
};

}  // namespace weir::net
