#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/roster.hpp"
#include "check/call_tally.hpp"
#include "check/completion_sink.hpp"
#include "check/flight.hpp"
#include "weir/detail/check.hpp"
#include "weir/event.hpp"
#include "weir/stats.hpp"

namespace weir::detail {

/// The interface of a store to limiters. Thread-safe.
class store_backend {
 public:
  /// `on_event` gets the events; it may be empty.
  explicit store_backend(const boost::asio::any_io_executor& executor,
                         event_handler&& on_event = {});
  virtual ~store_backend() = default;

  /// Takes over a validated check. The caller's handler must not run inside the call, but a memory
  /// store finishes the check there.
  virtual void start(check& c) = 0;

  /// Starts several checks in this order, so that a store can coalesce them.
  virtual void start_all(std::span<check* const> checks) {
    for (check* c : checks) start(*c);
  }

  /// Cancels a started check that is not finished yet. A sent acquire leaves a stand-in
  /// (check/give_back.hpp), because the store may make a reservation for it.
  virtual void cancel(check& c, cancel_scope scope) = 0;

  /// See store::close().
  virtual void close() = 0;

  /// Empty once the context is destroyed.
  const boost::asio::any_io_executor& get_executor() const noexcept { return executor_; }
  /// The same, if it is that of an io_context; else null. Only for comparison: the context may be
  /// destroyed.
  const boost::asio::io_context::executor_type* usual_executor() const noexcept {
    return usual_executor_ ? &*usual_executor_ : nullptr;
  }

  /// True if the store may lose a marker before its time: a server evicts keys and fails over.
  virtual bool may_forget() const noexcept { return true; }

  /// True if the hash tags of keys decide which of them one call may have. Otherwise
  /// limiter_options::subject_buckets has no effect.
  virtual bool has_hash_tags() const noexcept { return false; }

  /// Adds what store::stats() tells of each connection.
  virtual void describe(std::vector<connection_stats>& /*into*/) const {}

  /// Tells the store's handler of a connection to `address`. Called without locks.
  void report(event_kind what, error cause, const std::string& address) noexcept;
  /// Posts an event to `own`, or to the store's handler if `own` is null. Called without locks.
  void report(event&& e, const std::shared_ptr<const event_handler>& own = nullptr) noexcept;
  /// From now on, the events go to the handler of another store.
  void report_through(const store_backend& other) noexcept { on_event_ = other.on_event_; }
  bool has_event_handler() const noexcept { return on_event_ != nullptr; }

  /// The counts of its limiters.
  tally_book& book() noexcept { return book_; }

  /// The prefix of every key.
  virtual std::string_view key_prefix() const noexcept = 0;

  /// The limiters that have had waiters, leases or local units. The store tells them that it
  /// closes, or that its context is being destroyed.
  virtual roster<const limiter_spec>& limiters() noexcept { return limiters_; }

  /// Called once, by the store's first handle, before the first check.
  void attach(std::unique_ptr<completion_sink> sink) noexcept { sink_ = std::move(sink); }
  bool has_sink() const noexcept { return sink_ != nullptr; }
  completion_sink& sink() noexcept { return *sink_; }

 protected:
  /// Tells limiters and sink that the store closes. They keep copies of `keep_alive` while
  /// reservations may still have to go back.
  void tell_of_close(const std::shared_ptr<void>& keep_alive);
  /// Discards these checks, and tells limiters and sink that the context is being destroyed.
  void tell_of_shutdown(check_list&& dropped) noexcept;

 private:
  boost::asio::any_io_executor executor_;
  std::optional<boost::asio::io_context::executor_type> usual_executor_;
  roster<const limiter_spec> limiters_;
  tally_book book_;
  std::shared_ptr<const event_handler> on_event_;  // null: nobody asked
  std::unique_ptr<completion_sink> sink_;
};

/// True if an error means that the store failed. False for a mistake in the call, a cancellation, a
/// closed store, `overloaded` and `store_contention`.
bool is_store_failure(const error_code& ec) noexcept;

}  // namespace weir::detail
