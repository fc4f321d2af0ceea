#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "weir/claim.hpp"
#include "weir/decision.hpp"
#include "weir/detail/enter_operation.hpp"
#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/limiter.hpp"
#include "weir/stats.hpp"
#include "weir/store.hpp"

namespace weir {

// Here, because g++ and clang agree on no place for it beside [[nodiscard]].
class WEIR_EXPORT lease;

struct concurrency_options {
  /// How many leases may exist at once, 1 to 100,000.
  std::int64_t limit = 1;

  /// The time after which a lease lapses unless the library renews it, 100 ms to a day. The library
  /// renews it at a third of that time. The lease of a process that died is free after that time.
  /// Choose several times the longest outage of the store that a holder should survive.
  duration lease_duration = std::chrono::seconds{30};

  /// As limiter_options::group, for enter() together with limiters of that group.
  std::string_view group = {};

  /// As limiter_options::subject_buckets, for enter() together with limiters that have as many.
  std::size_t subject_buckets = 0;
};

/// Options of one enter() or fetch() of a gate.
struct enter_options {
  /// As record_options::timeout.
  duration timeout = {};
};

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<concurrency_options> &&
              std::is_trivially_destructible_v<enter_options>);

/// What concurrency_limiter::enter() gives: a lease, or the refusal. Movable, not copyable.
///
/// While the object exists, the library renews the lease. The destructor and release() give it
/// back.
///
/// **Loss.** The holder loses its lease if the store has lost its data, or was not reached for the
/// whole lease_duration. Another caller may then enter, so the holder should stop. lost() and
/// cancel_when_lost() report the loss. The holder counts the duration from the moment before
/// enter(), or the last renewal, left this process, by this process's steady clock. So if the
/// clocks run at one speed, the holder learns of the loss before another caller gets the lease; in
/// a Memcached store only if the processes' clocks also show one time (docs/concurrency.md). A
/// process that was stopped learns of the loss when it resumes.
///
/// **Thread safety.** Different threads may use different leases; one thread at a time may use a
/// lease.
///
/// **Object lifetime.** A lease, released or not, keeps the store open and `io_context::run()` busy
/// until the object is destroyed or assigned to, or the store is closed. It may outlive the store's
/// execution context: then only moves, release() and the destructor are allowed. The store is not
/// told, and the lease lapses.
class [[nodiscard]] lease {
 public:
  /// An object without a lease.
  lease() noexcept = default;
  lease(lease&& other) noexcept;
  lease& operator=(lease&& other) noexcept;
  ~lease() { release(); }

  /// Whether enter() gave a lease. It stays true when the lease is lost or given back. A moved-from
  /// object has none.
  bool allowed() const noexcept { return decision_.allowed; }
  /// Whether this object has a lease: enter() gave one, and it was not given back. It may be lost:
  /// see is_held().
  explicit operator bool() const noexcept { return core_ != nullptr && !released_; }

  /// The answer to enter(). `limit`: the gate's limit. `used`: the existing leases, the new one
  /// included. `retry_after`, if refused: when the next lease lapses if none is given back.
  /// `reset_after`: when the last one does. For enter() with claims, see that function.
  const joint_decision& decision() const& noexcept { return decision_; }
  joint_decision decision() && noexcept { return decision_; }

  /// Whether this object holds its lease now, as far as this process knows: the lease was given, is
  /// not lost, not given back, and has not lapsed by the steady clock. Ask it right before an
  /// action that needs the lease.
  [[nodiscard]] bool is_held() const noexcept;

  /// Gives the lease back, and does not wait for the store. A second call does nothing.
  ///
  /// The library tells the store at once, or as soon as it can be reached within the lease's
  /// remaining time; after that the lease has lapsed. A pending lost() ends with operation_aborted.
  /// If memory is short, the store is not told, and the lease lapses.
  ///
  /// **Errors.** None. **Thread safety** and **object lifetime** are as for the class.
  void release() noexcept;

  /// Completes without an error when the lease is lost; at once if it is lost already. Race the
  /// work against it: a loss cancels the work, and an exception of the work comes out at once.
  ///
  ///     auto race = asio::experimental::make_parallel_group(
  ///         asio::co_spawn(executor, send_request(), asio::deferred), lease.lost());
  ///     auto [order, failure, lost] =
  ///         co_await std::move(race).async_wait(asio::experimental::wait_for_one(),
  ///                                             asio::deferred);
  ///     if (failure) std::rethrow_exception(failure);
  ///
  /// This is for a context with one thread, or a strand that is the store's executor; elsewhere use
  /// cancel_when_lost(). Never use Asio's operator|| with work that throws: after an exception, it
  /// waits for lost(), which does not complete while the lease is renewed. See docs/concurrency.md.
  ///
  /// **Handler signature.** `void(error_code)`.
  ///
  /// **Errors.** operation_aborted (the lease was given back, or the operation was cancelled),
  /// `store_closed` (no renewal happens after the close). Throws std::logic_error if this object
  /// never had a lease.
  ///
  /// **Cancellation.** Any type cancels it, at any time.
  ///
  /// **Thread safety** is as for the class. **Object lifetime** and executor are as for `limiter`.
  template <class CompletionToken = boost::asio::deferred_t>
  auto lost(CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
        detail::check_initiation{holder()}, token, detail::watch_arguments(number_));
  }

  /// Emits `terminal` on the signal when the lease is lost, which cancels the operation that has
  /// the signal's slot. Only the last call has an effect: it replaces the signal and the executor
  /// of the call before. Nothing is emitted after the lease is released, destroyed or assigned to.
  ///
  /// `executor`: where the signal is emitted. The cancelled operation must run there (a strand, or
  /// a context with one thread). Release the lease (or replace its signal) there, too, and then
  /// destroy the signal there: only one thread at a time may use a signal. The executor's context
  /// is kept busy until the signal is emitted or replaced, the lease ends, or the store closes.
  ///
  /// Throws std::logic_error if this object never had a lease.
  void cancel_when_lost(boost::asio::cancellation_signal& signal,
                        const boost::asio::any_io_executor& executor);

  /// For enter() only.
  lease(detail::entered&& in, const error_code& ec, const joint_decision& answer);

 private:
  const std::shared_ptr<const detail::limiter_spec>& holder() const;  // throws if there is none

  std::shared_ptr<const detail::limiter_spec> core_;  // null: never had a lease, or moved from
  std::int64_t number_ = 0;
  bool released_ = false;
  joint_decision decision_;
  std::weak_ptr<void> watch_;  // of cancel_when_lost(); expired: no signal is to be emitted
};

/// A gate: lets at most `limit` calls be in flight, over all processes that use it. A handle:
/// copies are cheap and equal.
///
///     weir::concurrency_limiter gate(store, "partner-api", {.limit = 8, .lease_duration = 10s});
///     weir::lease lease = co_await gate.enter("account-42");
///     if (!lease) co_return report_busy();
///     co_await send_request();  // lease::lost() says how a loss cancels it
///
/// Gates of the same resource, group, subject_buckets and store count the same leases, each with
/// its own limit and duration. An enter() first drops the leases that have lapsed, in the same
/// atomic step: no process cleans up after another, and a dead process delays others only for the
/// rest of its lease. A gate has no queue: a refused caller may ask again. A good pause is the time
/// of one call, because most leases are given back long before they lapse (`retry_after`).
///
/// A lease is not a fenced lock: a process that was stopped and resumes acts as a holder until it
/// learns of the loss, although another caller may have entered.
///
/// If an enter() was cancelled, passed its deadline or lost its connection after it was sent, the
/// store may have given a lease. The library gives it back as soon as it can reach the store;
/// otherwise it lapses.
///
/// **Executor**, **cancellation**, **thread safety** and **object lifetime** are as for `limiter`.
class WEIR_EXPORT concurrency_limiter {
 public:
  using executor_type = boost::asio::any_io_executor;

  /// `resource`: as for `limiter`, 1 to 1024 bytes of any value. The gate copies all texts, and
  /// keeps a copy of the store's handle. `options`: the limit, the duration, and where the keys
  /// lie; see concurrency_options.
  ///
  /// Throws boost::system::system_error with `invalid_policy` (limit or lease_duration is out of
  /// range, or subject_buckets is above 16,384, or not 0 with a group), `invalid_resource` (for the
  /// resource and for the group) or `invalid_options` (the store was moved from).
  concurrency_limiter(const weir::store& store, std::string_view resource,
                      const concurrency_options& options);

  /// Takes a lease if one is free, and answers at once.
  ///
  /// `subject`: the account or client whose leases are counted; 1 to 65,536 bytes of any value.
  /// `options.timeout`: the deadline in microseconds from now; see enter_options.
  ///
  /// **Handler signature.** `void(error_code, lease)`. A full gate is not an error: the object then
  /// has no lease.
  ///
  /// **Errors.** `invalid_subject`, `invalid_duration`, operation_aborted, and the store errors of
  /// weir::error.
  ///
  /// **Cancellation.** As for `limiter`; a lease that the store gave meanwhile is given back.
  ///
  /// **Thread safety** and **object lifetime** are as for `limiter`.
  template <class CompletionToken = boost::asio::deferred_t>
  auto enter(std::string_view subject, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, ask(subject, options));
  }
  template <boost::asio::completion_token_for<void(error_code, lease)> CompletionToken>
  auto enter(std::string_view subject, CompletionToken&& token) const {
    return enter(subject, enter_options{}, std::forward<CompletionToken>(token));
  }

  /// Takes a lease and counts in limiters of the same group (or the same resource, subject and
  /// subject_buckets), or does nothing, in one atomic step.
  ///
  /// The answer is as for record_all(), with the gate as the first limiter. What the limiters
  /// counted stays counted when the lease is given back. To correct it, call settle_all() or
  /// refund_all() with lease::decision() and the same claims, four at most; with one claim,
  /// limiter::settle() and refund() work, too. The limiters' failure policies do not apply.
  ///
  /// `also`: a claim as for record_all(), or an object that converts to a std::span of claims (not
  /// a list in braces). With no claim, the call is enter() without claims. `subject`, `options`: as
  /// for enter() without claims.
  ///
  /// **Handler signature.** `void(error_code, lease)`.
  ///
  /// **Errors.** `invalid_subject`, `invalid_duration`, `invalid_cost`, `cost_exceeds_limit`,
  /// `cannot_combine`, `joint_not_supported`, operation_aborted, and the store errors of
  /// weir::error.
  ///
  /// **Cancellation**, **thread safety** and **object lifetime** are as for enter() without claims;
  /// the claims may be destroyed when this function has returned.
  ///
  ///     weir::lease lease = co_await gate.enter("account-42", per_second.on("account-42"));
  ///     if (!lease) log(lease.decision().tier == 0 ? "too many at once" : "too many a second");
  template <detail::claim_or_claims Claims, class CompletionToken = boost::asio::deferred_t>
  auto enter(std::string_view subject, const Claims& also, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, ask_jointly(subject, detail::claims_in(also), options));
  }
  template <detail::claim_or_claims Claims,
            boost::asio::completion_token_for<void(error_code, lease)> CompletionToken>
  auto enter(std::string_view subject, const Claims& also, CompletionToken&& token) const {
    return enter(subject, also, enter_options{}, std::forward<CompletionToken>(token));
  }

  /// Answers how many leases exist (`used`) and whether one more would be given, and changes
  /// nothing.
  ///
  /// `subject`, `options`: as for enter().
  ///
  /// **Handler signature.** `void(error_code, decision)`.
  ///
  /// **Errors.** `invalid_subject`, `invalid_duration`, operation_aborted, and the store errors of
  /// weir::error.
  ///
  /// **Cancellation**, **thread safety** and **object lifetime** are as for `limiter`.
  template <class CompletionToken = boost::asio::deferred_t>
  auto fetch(std::string_view subject, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
        detail::check_initiation{core_}, token,
        detail::arguments_of<detail::fetch_request>{detail::copy_of_subject(subject),
                                                    options.timeout});
  }
  template <boost::asio::completion_token_for<void(error_code, weir::decision)> CompletionToken>
  auto fetch(std::string_view subject, CompletionToken&& token) const {
    return fetch(subject, enter_options{}, std::forward<CompletionToken>(token));
  }

  /// The resource that the constructor got. The view is valid while this gate or a copy exists.
  std::string_view resource() const noexcept;

  /// The store's executor; see limiter::get_executor().
  executor_type get_executor() const noexcept;

  /// As limiter::stats().
  limiter_stats stats() const;

 private:
  using arguments = detail::arguments_of<detail::lease_request>;
  using joint_arguments = detail::joint_arguments_of<detail::lease_request>;

  static arguments ask(std::string_view subject, enter_options options) {
    return {detail::copy_of_subject(subject), options.timeout};
  }
  static joint_arguments ask_jointly(std::string_view subject, std::span<const claim> also,
                                     enter_options options);

  template <class CompletionToken, class Arguments>
  auto initiate(std::remove_reference_t<CompletionToken>& token, Arguments asked) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, lease)>(
        detail::enter_initiation<lease>{core_}, token, std::move(asked));
  }

  std::shared_ptr<const detail::limiter_spec> core_;
};

}  // namespace weir
