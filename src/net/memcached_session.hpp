#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string_view>
#include <utility>

#include "check/check_list.hpp"
#include "memcached/connection_core.hpp"
#include "net/connection_driver.hpp"
#include "weir/memcached_options.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// The connection to one server of a Memcached store: a driven connection_core. The store owns it,
/// and takes its finished checks.
class memcached_session final {
 public:
  class owner {
   public:
    /// Each operation in progress holds the result.
    virtual std::shared_ptr<void> hold() = 0;
    /// Takes finished checks. Called without a lock; may free the store.
    virtual void deliver(detail::check_list&& done) = 0;

   protected:
    ~owner() = default;
  };

  /// `options` and the owner outlive this object.
  memcached_session(const boost::asio::any_io_executor& executor, const memcached_options& options,
                    const memcached_server& server, owner& o);

  /// Starts connecting.
  void open() { driver_.wake(); }

  void start(detail::check& c, std::string_view key);
  /// See connection_driver for these.
  void cancel(detail::check& c, detail::cancel_scope scope) { driver_.cancel(c, scope); }
  bool replace(detail::check& c, detail::check& by) { return driver_.replace(c, by); }
  bool close() { return driver_.close(); }
  void stop_when_idle() { driver_.stop_when_idle(); }
  detail::check_list context_shut_down() noexcept { return driver_.context_shut_down(); }

 private:
  using core = memcached::connection_core;
  using driver = connection_driver<memcached_session, core>;
  friend driver;

  std::shared_ptr<void> keep_alive() { return owner_.hold(); }
  void deliver(detail::check_list&& done) { owner_.deliver(std::move(done)); }
  static error before_open() noexcept { return error{}; }
  void on_received(core& c, core::time now, error e, std::size_t bytes);
  static bool has_news(const core&) noexcept { return false; }
  static void on_news(bool /*stopped*/) noexcept {}

  const memcached_options& options_;
  const redis_options link_;  // what a stream needs to know
  owner& owner_;
  driver driver_;
};

}  // namespace weir::net
