#include "net/session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "net/delivery_batch.hpp"
#include "redis/error_reply.hpp"

namespace weir::net {

namespace asio = boost::asio;
using detail::check;
using detail::check_list;

namespace {

constexpr std::size_t read_size = 16 * 1024;
constexpr std::size_t all_of_it = static_cast<std::size_t>(-1);

pipeline::options pipeline_options(const redis_options& o) {
  return {.max_pending = std::max<std::size_t>(1, o.max_pending),
          .max_keys_per_call = std::max<std::size_t>(1, o.max_keys_per_call),
          .timeout = std::max(o.timeout, std::chrono::microseconds{1})};
}

}  // namespace

session::session(const asio::any_io_executor& executor, redis_options&& options)
    : options_(std::move(options)),
      executor_(executor),
      strand_(asio::make_strand(executor)),
      pipeline_(pipeline_options(options_)),
      deadline_timer_(strand_),
      connect_timer_(strand_),
      resolver_(strand_),
      backoff_(options_.backoff_min, options_.backoff_max, std::random_device{}()),
      registry_(&asio::use_service<session_registry>(
          asio::query(executor, asio::execution::context))) {
  registry_->add(*this);
}

session::~session() { registry_->remove(*this); }

void session::open() {
  asio::post(strand_, [self = shared_from_this()] { self->connect(); });
}

// ---- callers, on any thread

void session::start(check& c) {
  const time now = std::chrono::steady_clock::now();
  bool wake = false;
  check_list done;
  {
    const std::lock_guard lock(mutex_);
    pipeline_.submit(c, now);
    if (!flush_posted_ && (pipeline_.wants_write() || pipeline_.next_deadline() < armed_)) {
      wake = flush_posted_ = true;
    }
    done = pipeline_.take_done();
  }
  // The check may be gone from here on.
  if (wake) post_flush();
  deliver(std::move(done));
}

void session::cancel(check& c, detail::cancel_scope scope) {
  check_list done;
  {
    const std::lock_guard lock(mutex_);
    pipeline_.cancel(c, scope);
    done = pipeline_.take_done();
  }
  deliver(std::move(done));
}

void session::close() {
  check_list done;
  bool stops = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    pipeline_.close();
    done = pipeline_.take_done();
    stops = !context_gone_;
  }
  deliver(std::move(done));
  if (stops) asio::post(strand_, [self = shared_from_this()] { self->stop(); });
}

void session::context_shut_down() noexcept {
  // A dropped handler may own the last handle to this store.
  const auto self = weak_from_this().lock();
  check_list dropped;
  {
    const std::lock_guard lock(mutex_);
    context_gone_ = true;
    closed_ = true;
    dropped = pipeline_.abandon();
  }
  while (!dropped.empty()) {
    check& c = dropped.front();
    dropped.pop_front();
    c.finish(detail::delivery::discard);
  }
}

void session::deliver(check_list&& done) { delivery_batch::post(executor_, std::move(done)); }

void session::post_flush() {
  asio::post(strand_, [self = shared_from_this()] { self->flush(); });
}

// ---- connecting

void session::connect() {
  if (stopped_) return;
  const auto c = connection_ = std::make_shared<connection>(strand_, options_);
  connect_timer_.expires_after(options_.connect_timeout);
  connect_timer_.async_wait([self = shared_from_this(), c](error_code ec) {
    if (!ec && !c->ready) self->connect_failed(c, error{});
  });
  resolve(c);
}

void session::resolve(const connection_ptr& c) {
  if (!options_.unix_path.empty()) {
    if (options_.unix_path.size() < sizeof(sockaddr_un::sun_path)) {
      c->endpoints.emplace_back(asio::local::stream_protocol::endpoint(options_.unix_path));
    }
    return try_next_endpoint(c);
  }
  resolver_.async_resolve(
      options_.host, std::to_string(options_.port),
      [self = shared_from_this(), c](error_code ec, asio::ip::tcp::resolver::results_type found) {
        if (c != self->connection_) return;
        if (ec) return self->connect_failed(c, error{});
        for (const auto& entry : found) c->endpoints.emplace_back(entry.endpoint());
        self->try_next_endpoint(c);
      });
}

void session::try_next_endpoint(const connection_ptr& c) {
  if (c->next_endpoint == c->endpoints.size()) return connect_failed(c, error{});
  error_code ignored;
  c->socket.close(ignored);
  c->socket.async_connect(c->endpoints[c->next_endpoint++],
                          [self = shared_from_this(), c](error_code ec) {
                            if (c != self->connection_) return;
                            if (ec) return self->try_next_endpoint(c);
                            self->write_handshake(c);
                          });
}

void session::write_handshake(const connection_ptr& c) {
  if (options_.unix_path.empty()) {
    error_code ignored;
    c->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    c->socket.set_option(asio::socket_base::keep_alive(true), ignored);
  }
  asio::async_write(c->socket, asio::buffer(c->shake.output()),
                    [self = shared_from_this(), c](error_code ec, std::size_t) {
                      if (c != self->connection_) return;
                      if (ec) return self->connect_failed(c, error{});
                      self->read_handshake(c);
                    });
}

void session::read_handshake(const connection_ptr& c) {
  const auto room = c->reader.prepare(read_size);
  c->socket.async_read_some(
      asio::buffer(room.data(), room.size()),
      [self = shared_from_this(), c](error_code ec, std::size_t n) {
        using step = redis::handshake::step;
        if (c != self->connection_) return;
        if (ec) return self->connect_failed(c, error{});
        c->reader.commit(n);
        while (const redis::reply_view* reply = c->reader.next(ec)) {
          switch (c->shake.on_reply(*reply)) {
            case step::going: break;
            case step::again: return self->write_handshake(c);
            case step::done: return self->connected(c);
            case step::failed: return self->connect_failed(c, c->shake.failure());
          }
        }
        if (ec) return self->connect_failed(c, error::protocol_error);
        self->read_handshake(c);
      });
}

void session::connected(const connection_ptr& c) {
  c->ready = true;
  connect_timer_.cancel();
  backoff_.reset();
  {
    const std::lock_guard lock(mutex_);
    pipeline_.connected();
  }
  read(c);
  flush();
}

/// A zero reason means that the server could not be reached, which may change at any time. Others come from the server
/// itself; unless it will be well again soon, its answer is the callers' answer too.
void session::connect_failed(const connection_ptr& c, error reason) {
  if (c != connection_) return;
  connection_.reset();
  resolver_.cancel();
  error_code ignored;
  c->socket.close(ignored);
  if (reason != error{} && !redis::is_passing(reason)) {
    check_list done;
    {
      const std::lock_guard lock(mutex_);
      pipeline_.refused(reason);
      done = pipeline_.take_done();
    }
    deliver(std::move(done));
  }
  connect_later();
}

void session::connect_later() {
  if (stopped_) return;
  connect_timer_.expires_after(backoff_.next());
  connect_timer_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec) self->connect();
  });
}

// ---- connected

void session::read(const connection_ptr& c) {
  const auto room = c->reader.prepare(read_size);
  c->socket.async_read_some(
      asio::buffer(room.data(), room.size()),
      [self = shared_from_this(), c](error_code ec, std::size_t n) {
        if (c != self->connection_ || c->broken) return;
        if (ec) return self->lost(c, error::outcome_unknown);
        c->reader.commit(n);
        bool sane = false;
        bool more = false;
        check_list done;
        {
          const std::lock_guard lock(self->mutex_);
          sane = self->pipeline_.consume(c->reader);
          more = self->pipeline_.wants_write();
          done = self->pipeline_.take_done();
        }
        if (sane) self->read(c);  // before the callers: what they do next must not delay reading
        self->deliver(std::move(done));
        if (!sane) return self->lost(c, error::protocol_error);
        if (more) self->flush();
      });
}

void session::flush() {
  const std::string* data = nullptr;
  time rearm = time::max();
  {
    const std::lock_guard lock(mutex_);
    flush_posted_ = false;
    data = &pipeline_.next_write();
    if (pipeline_.next_deadline() < armed_) rearm = armed_ = pipeline_.next_deadline();
  }
  if (rearm != time::max()) arm_timer(rearm);
  if (data->empty()) return;
  const auto c = connection_;
  c->writing = true;
  asio::async_write(c->socket, asio::buffer(*data),
                    [self = shared_from_this(), c](error_code ec, std::size_t sent) {
                      self->written(c, ec, sent);
                    });
}

void session::written(const connection_ptr& c, error_code ec, std::size_t sent) {
  if (c != connection_) return;
  c->writing = false;
  if (c->broken) return gone(c, sent);
  if (ec) {
    c->broken = true;
    c->reason = error::outcome_unknown;
    error_code ignored;
    c->socket.close(ignored);
    return gone(c, sent);
  }
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    pipeline_.write_done();
    more = pipeline_.wants_write();
  }
  if (more) flush();
}

/// Closes the connection. If a write is under way, its end is awaited first: what it did not send can be sent again.
void session::lost(const connection_ptr& c, error reason) {
  if (c != connection_ || c->broken) return;
  c->broken = true;
  c->reason = reason;
  error_code ignored;
  c->socket.close(ignored);
  if (!c->writing) gone(c, all_of_it);
}

void session::gone(const connection_ptr& c, std::size_t sent) {
  check_list done;
  {
    const std::lock_guard lock(mutex_);
    pipeline_.disconnected(c->reason, sent);
    done = pipeline_.take_done();
  }
  deliver(std::move(done));
  connection_.reset();
  connect_later();
}

void session::stop() {
  stopped_ = true;
  if (connection_ != nullptr) {
    error_code ignored;
    connection_->socket.close(ignored);
    connection_.reset();
  }
  resolver_.cancel();
  connect_timer_.cancel();
  deadline_timer_.cancel();
}

// ---- deadlines

void session::arm_timer(time when) {
  if (stopped_) return;
  deadline_timer_.expires_at(when);
  deadline_timer_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec) self->on_timer();
  });
}

void session::on_timer() {
  check_list done;
  time next = time::max();
  {
    const std::lock_guard lock(mutex_);
    pipeline_.expire(std::chrono::steady_clock::now());
    next = armed_ = pipeline_.next_deadline();
    done = pipeline_.take_done();
  }
  deliver(std::move(done));
  if (next != time::max()) arm_timer(next);
}

}  // namespace weir::net
