#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "check/flight.hpp"
#include "check/store_backend.hpp"
#include "waiting/reservation_request.hpp"
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
        watch_(std::move(watch)) {}

  void start(detail::check& c) override {
    // Nothing is left of these afterwards; of a line's question, the line itself keeps it.
    const bool is_take = c.kind == detail::check_kind::record && c.flight.is_internal;
    if (c.traits.gives_back || is_take) {
      watch_(c);
      return inner_->start(c);
    }
    inner_->start(c);
    watch_(request_of(c));
  }
  void cancel(detail::check& c, detail::cancel_scope scope) override { inner_->cancel(c, scope); }
  bool replace(detail::check& c, detail::check& by) override { return inner_->replace(c, by); }
  void close() override { inner_->close(); }
  detail::roster<const detail::limiter_spec>& limiters() noexcept override {
    return inner_->limiters();
  }
  std::string_view key_prefix() const noexcept override { return inner_->key_prefix(); }

 private:
  /// The check with the store's answer: a caller of acquire() that has become a waiter has given it
  /// to its request.
  static const detail::check& request_of(const detail::check& c) {
    if (c.flight.queued == nullptr) return c;
    const auto& request = static_cast<const waiting::waiter&>(*c.flight.queued).reservation;
    return request == nullptr ? c : *request;  // null: it failed, and is to be repeated
  }

  const std::shared_ptr<detail::store_backend> inner_;
  const watcher watch_;
};

}  // namespace weir::test
