#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <span>
#include <string_view>

#include "check/completion_sink.hpp"
#include "check/roster.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// What a store does for limiters. All functions may be called from any thread.
class store_backend {
 public:
  virtual ~store_backend() = default;

  /// Takes the check over. It has been validated. Must not finish it inside the call.
  virtual void start(check& c) = 0;

  /// The same for several, in this order: those that can travel together do.
  virtual void start_all(std::span<check* const> checks) {
    for (check* c : checks) start(*c);
  }

  /// Drops the waiter of a started check, if it is not done yet.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  /// See store::close().
  virtual void close() = 0;

  /// Empty once its context is gone.
  virtual boost::asio::any_io_executor get_executor() const noexcept = 0;

  /// Whether it may lose early what it remembers: a server evicts, and fails over.
  virtual bool may_forget() const noexcept { return true; }

  /// What every key begins with.
  virtual std::string_view key_prefix() const noexcept = 0;

  /// The limiters that have waiters or leases. The store passes on to them that it closes, and that
  /// its context ends.
  virtual roster<const limiter_spec>& limiters() noexcept { return limiters_; }

  /// Before the first check. The store's first handle does it.
  void attach(std::unique_ptr<completion_sink> sink) { sink_ = std::move(sink); }
  bool has_sink() const noexcept { return sink_ != nullptr; }

 protected:
  completion_sink& sink() noexcept { return *sink_; }

  /// They keep copies of `hold` while turns may still have to go back.
  void close_limiters(const std::shared_ptr<void>& hold);
  void end_limiters() noexcept;

 private:
  roster<const limiter_spec> limiters_;
  std::unique_ptr<completion_sink> sink_;
};

/// Whether an error means that the store failed: not a mistake in the call, nor that its caller
/// cancelled it or closed the store, nor that this process has too many calls pending.
bool is_store_failure(const error_code& ec) noexcept;

}  // namespace weir::detail
