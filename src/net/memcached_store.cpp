#include "weir/memcached_store.hpp"

#include <boost/system/system_error.hpp>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/shutdown_service.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"
#include "memcached/connection_core.hpp"
#include "memcached/ketama.hpp"
#include "memcached/options_check.hpp"
#include "memcached/wire_key.hpp"
#include "net/connection_driver.hpp"

namespace weir {
namespace {

/// Sends each check to the server that keeps its subject. Every call of this object is thread-safe:
/// the connections have a mutex each, and the rest does not change.
class memcached_store final : public detail::store_backend,
                              public std::enable_shared_from_this<memcached_store>,
                              public detail::shutdown_listener {
 public:
  memcached_store(const boost::asio::any_io_executor& executor, memcached_options&& options)
      : store_backend(executor, std::move(options.on_event)),
        options_(std::move(options)),
        ring_(options_.servers) {
    for (const memcached_server& s : options_.servers) {
      connections_.emplace_back(*this, s);
    }
  }

  void open() {
    detail::shutdown_service::add(get_executor(), weak_from_this());
    for (connection& one : connections_) one.driver.wake();
  }

  void start(detail::check& c) override {
    if (!c.further().empty()) {
      c.ec = error::joint_not_supported;
      c.flight.stage = detail::check_stage::done;
      const std::shared_ptr<void> alive = shared_from_this();
      return sink().complete(c);
    }
    thread_local std::string key;
    connection_of(c, key).start(c, key);
  }

  void cancel(detail::check& c, detail::cancel_scope scope) override {
    thread_local std::string key;
    const std::shared_ptr<void> alive = shared_from_this();
    const bool is_joint = !c.further().empty();  // done at once
    if (!is_joint) connection_of(c, key).driver.cancel(c, scope);
  }

  void close() override {
    bool is_first = true;
    for (connection& one : connections_) is_first = one.driver.close() && is_first;
    if (!is_first) return;
    // Held here and by limiters that wait for an answer; its end lets the connections stop.
    const std::shared_ptr<void> hold(nullptr, [self = shared_from_this()](void*) {
      for (connection& one : self->connections_) one.driver.stop_when_idle();
    });
    tell_of_close(hold);
  }

  void describe(std::vector<connection_stats>& into) const override {
    for (const connection& one : connections_) one.driver.describe(into);
  }
  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }

 private:
  /// The connection to one server: drives a connection_core.
  struct connection {
    using core = memcached::connection_core;

    connection(memcached_store& w, const memcached_server& server)
        : whole(w),
          link(link_to(w.options_, server)),
          driver(*this, w.get_executor(), true, w.options_, std::random_device{}()) {
      driver.make_stream(link, net::tls_context());
    }

    void start(detail::check& c, std::string_view key) {
      if (driver.call([&](core& k, core::time now) { k.submit(c, key, now); })) return;
      c.finish(detail::delivery::discard);
    }

    static redis_options link_to(const memcached_options& o, const memcached_server& server) {
      redis_options link;
      link.host = server.host;
      link.port = server.port;
      link.unix_path = server.unix_path;
      link.connect_timeout = o.connect_timeout;
      return link;
    }

    // Called by the driver.
    std::shared_ptr<void> keep_alive() { return whole.shared_from_this(); }
    void deliver(detail::check_list&& done) { whole.sink().complete(std::move(done)); }
    static error before_open() noexcept { return error{}; }
    void on_received(core& c, core::time now, error e, std::size_t bytes) {
      c.received(e == error{}, bytes, now, detail::read_clock(whole.options_.clock));
    }
    static bool has_news(const core&) noexcept { return false; }
    static void on_news(bool /*stopped*/) noexcept {}
    void on_happening(const std::string& address, detail::link_history::happening what) {
      whole.report(what.what, what.cause, address);
    }

    memcached_store& whole;
    const redis_options link;  // what a stream needs to know
    net::connection_driver<connection, core> driver;
  };

  connection& connection_of(const detail::check& c, std::string& key) {
    key.clear();
    c.limiter->append_subject_key(key, c.subject.view());
    if (connections_.size() == 1) return connections_.front();
    return connections_[ring_.server_of(memcached::wire_key(key))];
  }

  void context_shut_down() noexcept override {
    detail::check_list dropped;
    for (connection& one : connections_) {
      detail::check_list of_one = one.driver.context_shut_down();
      dropped.splice(dropped.end(), of_one);
    }
    tell_of_shutdown(std::move(dropped));
  }

  const memcached_options options_;
  const memcached::ketama ring_;
  std::deque<connection> connections_;
};

}  // namespace

store make_memcached_store(const boost::asio::any_io_executor& executor,
                           memcached_options options) {
  if (const std::string fault = memcached::fault_of(options); !fault.empty()) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "memcached_options: " + fault);
  }
  auto made = std::make_shared<memcached_store>(executor, std::move(options));
  // Pending I/O keeps the store alive. Users get a separate handle whose end closes it.
  store handle(std::shared_ptr<detail::store_backend>(
      made.get(), [made](detail::store_backend*) { made->close(); }));
  made->open();
  return handle;
}

store make_memcached_store(const boost::asio::any_io_executor& executor) {
  return make_memcached_store(executor, memcached_options{});
}

}  // namespace weir
