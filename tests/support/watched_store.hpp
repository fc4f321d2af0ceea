#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "check/flight.hpp"
#include "check/store_backend.hpp"
#include "weir/store.hpp"

namespace weir::test {

/// A store that answers at once, as the memory store does, and tells what it was asked and has
/// answered, in this order.
class watched_store final : public detail::store_backend {
 public:
  using watcher = std::function<void(const detail::check&)>;

  watched_store(const store& inner, watcher watch)
      : store_backend(inner.backend()->get_executor()),
        inner_(inner.backend()),
        watch_(std::move(watch)) {
    inner_->attach(std::make_unique<forwarder>(*this));
  }

  void start(detail::check& c) override {
    // Nothing is left of these afterwards.
    const bool is_take = c.kind == detail::check_kind::record && c.flight.is_internal;
    if (c.traits.gives_back || is_take) {
      watch_(c);
      return inner_->start(c);
    }
    inner_->start(c);
    watch_(c);
  }
  void cancel(detail::check& c, detail::cancel_scope scope) override { inner_->cancel(c, scope); }
  void close() override { inner_->close(); }
  detail::roster<const detail::limiter_spec>& limiters() noexcept override {
    return inner_->limiters();
  }
  std::string_view key_prefix() const noexcept override { return inner_->key_prefix(); }

 private:
  /// Hands what the inner store has finished to the sink of this one, where acquire_all waits.
  class forwarder final : public detail::completion_sink {
   public:
    explicit forwarder(watched_store& whole) : whole_(whole) {}
    void complete(detail::check& c) override { whole_.sink().complete(c); }
    void complete(detail::check_list&& done) override { whole_.sink().complete(std::move(done)); }
    void wait(detail::check& c) override { whole_.sink().wait(c); }
    void cancel(detail::check& c, detail::cancel_scope s) override { whole_.sink().cancel(c, s); }
    void close(const std::shared_ptr<void>& keep_alive) override {
      whole_.sink().close(keep_alive);
    }
    void context_shut_down() noexcept override {
      if (whole_.has_sink()) whole_.sink().context_shut_down();
    }

   private:
    watched_store& whole_;
  };

  const std::shared_ptr<detail::store_backend> inner_;
  const watcher watch_;
};

}  // namespace weir::test
