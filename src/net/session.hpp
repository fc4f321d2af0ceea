#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/shutdown_service.hpp"
#include "check/store_backend.hpp"
#include "net/connection_driver.hpp"
#include "net/sentinel_watch.hpp"
#include "redis/connection_core.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// A Redis store: a driven connection_core, and a sentinel_watch if there are Sentinels.
class session final : public detail::store_backend,
                      public std::enable_shared_from_this<session>,
                      public detail::shutdown_listener,
                      private sentinel_watch::owner {
 public:
  /// A Redis Cluster that has this session as a node. Called on the session's strand, without
  /// locks.
  class cluster {
   public:
    virtual void on_news() = 0;   ///< see connection_core::has_news()
    virtual void on_ended() = 0;  ///< the connection has stopped for good

   protected:
    ~cluster() = default;
  };

  session(const boost::asio::any_io_executor& executor, redis_options&& options, tls_contexts tls);

  /// Makes this a node of a cluster. Called before open().
  void join(cluster& c) noexcept { cluster_ = &c; }
  /// For a cluster: see connection_driver::with_core().
  template <class F>
  void with_core(F&& f) {
    driver_.with_core(std::forward<F>(f));
  }

  /// Starts connecting.
  void open();

  void start(detail::check& c) override;
  void start_all(std::span<detail::check* const> checks) override;
  void cancel(detail::check& c, detail::cancel_scope scope) override;
  void close() override;
  void describe(std::vector<connection_stats>& into) const override { driver_.describe(into); }
  bool has_hash_tags() const noexcept override { return true; }
  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }

 private:
  using core = redis::connection_core;
  using driver = connection_driver<session, core>;
  friend driver;

  void context_shut_down() noexcept override;

  std::shared_ptr<void> keep_alive() override { return shared_from_this(); }
  void deliver(detail::check_list&& done) { sink().complete(std::move(done)); }
  error before_open();
  void on_received(core& c, core::time now, error e, std::size_t bytes) {
    c.received(e == error{}, bytes, now, e);
  }
  bool has_news(const core& c) const noexcept { return cluster_ != nullptr && c.has_news(); }
  void on_news(bool stopped);
  void on_happening(const std::string& address, detail::link_history::happening what) {
    report(what.what, what.cause, address);
  }
  void master_moved() override;

  const redis_options options_;
  const tls_contexts tls_;
  cluster* cluster_ = nullptr;
  std::unique_ptr<sentinel_watch> watch_;  // null without Sentinels; used on the strand only
  driver driver_;
};

extern template class connection_driver<session, redis::connection_core>;  // in session.cpp

}  // namespace weir::net
