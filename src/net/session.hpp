#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/backoff.hpp"
#include "net/pipeline.hpp"
#include "net/session_registry.hpp"
#include "redis/handshake.hpp"
#include "redis/resp_reader.hpp"
#include "store_backend.hpp"
#include "weir/redis_store.hpp"

namespace weir::net {

/// Does the I/O for a pipeline: resolves, connects, shakes hands, reads and writes independently, and starts again when
/// the connection is lost.
///
/// Sockets and timers live on a strand. The pipeline lives under a mutex, because callers come from any thread; the lock is
/// held while checks are encoded or decoded, never while a handler runs or the kernel is called.
class session final : public detail::store_backend,
                      public shutdown_listener,
                      public std::enable_shared_from_this<session> {
 public:
  session(const boost::asio::any_io_executor& executor, redis_options&& options);
  ~session();

  /// Starts connecting.
  void open();

  void start(detail::check& c) override;
  void cancel(detail::check& c, detail::cancel_scope scope) override;
  void close() override;
  boost::asio::any_io_executor get_executor() const noexcept override { return executor_; }
  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }

  void context_shut_down() noexcept override;

 private:
  using strand = boost::asio::strand<boost::asio::any_io_executor>;
  using endpoint = boost::asio::generic::stream_protocol::endpoint;
  using time = pipeline::time;

  /// What belongs to one attempt to connect and what comes of it. Handlers of an attempt that has been given up find
  /// that it is no longer the current one.
  struct connection {
    connection(const strand& s, const redis_options& options) : socket(s), shake(options) {}
    boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, strand> socket;
    std::vector<endpoint> endpoints;
    std::size_t next_endpoint = 0;
    redis::handshake shake;
    redis::reply_reader reader;
    bool ready = false;  // the handshake is complete
    bool writing = false;
    bool broken = false;  // given up; waiting for the write under way to say how far it came
    error reason{};
  };
  using connection_ptr = std::shared_ptr<connection>;

  void connect();
  void resolve(const connection_ptr& c);
  void try_next_endpoint(const connection_ptr& c);
  void write_handshake(const connection_ptr& c);
  void read_handshake(const connection_ptr& c);
  void connected(const connection_ptr& c);
  void connect_failed(const connection_ptr& c, error reason);
  void connect_later();

  void read(const connection_ptr& c);
  void flush();
  void written(const connection_ptr& c, error_code ec, std::size_t sent);
  void lost(const connection_ptr& c, error reason);
  void gone(const connection_ptr& c, std::size_t sent);

  void deliver(detail::check_list&& done);
  void post_flush();
  void arm_timer(time when);
  void on_timer();
  void stop();

  const redis_options options_;
  const boost::asio::any_io_executor executor_;
  strand strand_;

  std::mutex mutex_;
  // Under the mutex:
  pipeline pipeline_;
  time armed_ = time::max();    // when the deadline timer fires
  bool flush_posted_ = false;
  bool closed_ = false;
  bool context_gone_ = false;

  // On the strand:
  connection_ptr connection_;
  bool stopped_ = false;
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                    boost::asio::wait_traits<std::chrono::steady_clock>, strand>
      deadline_timer_,
      connect_timer_;  // the limit of an attempt to connect, or the pause before the next
  boost::asio::ip::basic_resolver<boost::asio::ip::tcp, strand> resolver_;
  backoff backoff_;

  session_registry* registry_;
};

}  // namespace weir::net
