#include "weir/memcached_store.hpp"

#include <boost/system/system_error.hpp>
#include <deque>

#include "check/limiter_spec.hpp"
#include "check/shutdown_service.hpp"
#include "check/store_backend.hpp"
#include "memcached/ketama.hpp"
#include "memcached/options_check.hpp"
#include "memcached/wire_key.hpp"
#include "net/memcached_session.hpp"

namespace weir {
namespace {

/// Sends each check to the server that keeps its subject. Every call of this object is thread-safe:
/// the sessions have a mutex each, and the rest does not change.
class memcached_store final : public detail::store_backend,
                              public std::enable_shared_from_this<memcached_store>,
                              public detail::shutdown_listener,
                              private net::memcached_session::owner {
 public:
  memcached_store(const boost::asio::any_io_executor& executor, memcached_options&& options)
      : store_backend(executor), options_(std::move(options)), ring_(options_.servers) {
    for (const memcached_server& s : options_.servers) {
      sessions_.emplace_back(executor, options_, s, static_cast<owner&>(*this));
    }
  }

  void open() {
    detail::shutdown_service::add(get_executor(), weak_from_this());
    for (net::memcached_session& s : sessions_) s.open();
  }

  void start(detail::check& c) override {
    if (!c.further().empty()) {
      c.ec = error::joint_not_supported;
      flight_of(c).stage = detail::check_stage::done;
      const std::shared_ptr<void> alive = hold();
      return sink().complete(c);
    }
    thread_local std::string key;
    session_of(c, key).start(c, key);
  }

  void cancel(detail::check& c, detail::cancel_scope scope) override {
    thread_local std::string key;
    const std::shared_ptr<void> alive = hold();
    const bool is_joint = !c.further().empty();  // done at once
    if (!is_joint) session_of(c, key).cancel(c, scope);
  }

  bool replace(detail::check& c, detail::check& successor) override {
    thread_local std::string key;
    const std::shared_ptr<void> alive = hold();
    return session_of(c, key).replace(c, successor);
  }

  void close() override {
    bool is_first = true;
    for (net::memcached_session& s : sessions_) is_first = s.close() && is_first;
    if (!is_first) return;
    // Held here and by limiters that wait for an answer; its end lets the sessions stop.
    const std::shared_ptr<void> hold(nullptr, [self = shared_from_this()](void*) {
      for (net::memcached_session& s : self->sessions_) s.stop_when_idle();
    });
    tell_of_close(hold);
  }

  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }

 private:
  net::memcached_session& session_of(const detail::check& c, std::string& key) {
    key.clear();
    c.limiter->append_subject_key(key, c.subject.view());
    if (sessions_.size() == 1) return sessions_.front();
    return sessions_[ring_.server_of(memcached::wire_key(key))];
  }

  std::shared_ptr<void> hold() override { return shared_from_this(); }
  void deliver(detail::check_list&& done) override { sink().complete(std::move(done)); }

  void context_shut_down() noexcept override {
    detail::check_list dropped;
    for (net::memcached_session& s : sessions_) {
      detail::check_list of_one = s.context_shut_down();
      dropped.splice(dropped.end(), of_one);
    }
    tell_of_shutdown(std::move(dropped));
  }

  const memcached_options options_;
  const memcached::ketama ring_;
  std::deque<net::memcached_session> sessions_;
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
