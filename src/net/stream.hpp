#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/locator.hpp"
#include "net/resolver.hpp"
#include "net/strand.hpp"
#include "net/tls.hpp"
#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// A byte stream to the server: TCP, TLS over TCP, or a Unix socket. All calls and reports are on
/// one strand. Each operation reports to the listener exactly once, never inside the call (a write
/// that ends at once reports by its result instead); close() makes operations in progress report
/// soon.
class stream {
 public:
  using clock = std::chrono::steady_clock;

  class listener {
   public:
    /// Each operation in progress holds the result.
    virtual std::shared_ptr<void> keep_alive() = 0;
    /// How far open() has come: the error with which it ends if it goes no further. Runs inside
    /// calls of the stream, too.
    virtual void on_step(error e) = 0;
    virtual void on_opened(error e) = 0;  ///< see connection_core::opened()
    /// See connection_core::received(): zero, tls_failed, or outcome_unknown for any other failure.
    virtual void on_received(error e, std::size_t bytes) = 0;
    virtual void on_written(bool ok, std::size_t bytes) = 0;

   protected:
    ~listener() = default;
  };

  /// `where`, if not null, is asked for host and port instead of the options, and outlives this.
  stream(const strand& s, const redis_options& options, tls_context tls, listener& l,
         locator* where = nullptr);

  /// Resolves the name, connects to its addresses in turn, and runs the TLS handshake. `elsewhere`
  /// moves the address of the last connection to the end of the list.
  void open(bool elsewhere);
  void read(std::span<char> room);
  /// True if the system has taken all bytes: then on_written() is not called. The bytes must stay
  /// valid until the report.
  bool write(std::string_view bytes);
  void close();
  /// Until `end`, the context polls for I/O instead of sleeping. A later call replaces this one.
  void poll_until(clock::time_point end);
  /// The server's "host:port", or the path of the Unix socket. Empty before it is known.
  const std::string& address() const noexcept { return address_; }

 private:
  using socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, strand>;
  void look_up(const std::string& host, std::uint16_t port);
  void note_address(const std::string& host, std::uint16_t port);
  void connect_next();
  void open_socket();
  void limit_address();
  void set_tcp_options();
  void secure();
  void report_opened(error e);
  void poll_again(std::shared_ptr<void>&& alive);

  strand strand_;
  const redis_options& options_;
  listener& listener_;
  locator* const locator_;
  const tls_context tls_context_;

  std::string host_;  // the server's name in its certificate
  resolver lookup_;
  std::string address_;
  resolver::endpoints endpoints_;
  std::size_t first_endpoint_ = 0;  // the index of the address that is tried first
  std::size_t next_endpoint_ = 0;
  clock::time_point give_up_{};
  error met_{};  // the error that this attempt would report if it ended now
  timer address_timer_;
  bool closed_ = false;     // close() was called: open() must stop
  bool connected_ = false;  // to the address at next_endpoint_ - 1
  clock::time_point poll_until_ = clock::time_point::min();
  bool polls_ = false;  // a function that looks at poll_until_ is posted
  std::optional<socket> socket_;
  std::optional<boost::asio::ssl::stream<socket&>> tls_;
};

}  // namespace weir::net
