#include "net/session.hpp"

#include <random>
#include <utility>

namespace weir::net {

namespace asio = boost::asio;
using detail::check;

template class connection_driver<session, redis::connection_core>;

session::session(const asio::any_io_executor& executor, redis_options&& options, tls_contexts tls)
    : store_backend(executor, std::move(options.on_event)),
      options_(std::move(options)),
      tls_(std::move(tls)),
      driver_(*this, executor, !options_.single_threaded, options_, std::random_device{}()) {
  if (!options_.sentinel.addresses.empty()) {
    watch_ = std::make_unique<sentinel_watch>(driver_.get_strand(), options_, tls_.sentinel,
                                              static_cast<sentinel_watch::owner&>(*this));
  }
  driver_.make_stream(options_, tls_.server, watch_.get());
}

void session::open() {
  detail::shutdown_service::add(get_executor(), weak_from_this());
  driver_.wake();
}

// ---- called by limiters, on any thread

void session::start(check& c) {
  if (driver_.call([&c](core& k, core::time now) { k.submit(c, now); })) return;
  c.finish(detail::delivery::discard);
}

void session::start_all(std::span<check* const> checks) {
  const auto submit_all = [checks](core& k, core::time now) {
    for (check* c : checks) k.submit(*c, now);
  };
  if (driver_.call(submit_all)) return;
  for (check* c : checks) c->finish(detail::delivery::discard);
}

void session::cancel(check& c, detail::cancel_scope scope) { driver_.cancel(c, scope); }

void session::close() {
  if (!driver_.close()) return;
  // Held here and by limiters that wait for an answer; its end lets the session stop.
  const std::shared_ptr<void> hold(
      nullptr, [self = shared_from_this()](void*) { self->driver_.stop_when_idle(); });
  tell_of_close(hold);
}

void session::context_shut_down() noexcept {
  detail::check_list dropped = driver_.context_shut_down();
  watch_.reset();
  tell_of_shutdown(std::move(dropped));
}

// ---- called by the driver and the watch, on the strand

/// Calls the user's function for the credentials, so without the mutex.
error session::before_open() {
  if (!options_.credentials) return error{};
  try {
    redis_credentials login = options_.credentials();
    // Without a password, the store would be served as the default user.
    if (!login.username.empty() && login.password.empty()) return error::authentication_failed;
    driver_.with_core([&](core& k, core::time) { k.log_in_with(std::move(login)); });
    return error{};
  } catch (...) {
    return error::authentication_failed;
  }
}

void session::on_news(bool stopped) {
  if (stopped && watch_ != nullptr) watch_->stop();
  if (cluster_ != nullptr) stopped ? cluster_->on_ended() : cluster_->on_news();
}

void session::master_moved() {
  driver_.drive([](core& k, core::time now) { k.relocate(now); });
}

}  // namespace weir::net
