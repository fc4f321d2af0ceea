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

#include "weir/decision.hpp"
#include "weir/detail/enter_operation.hpp"
#include "weir/limiter.hpp"
#include "weir/store.hpp"

namespace weir {

struct concurrency_options {
  std::int64_t limit = 1;  ///< leases at once, 1 to 100,000

  /// How long a lease lasts unless it is renewed, 100 ms to a day. The place of a holder that died
  /// is free again after that; a holder that lives renews at a third of it. Several times the
  /// longest outage of the store that a holder should outlast is a good length.
  std::chrono::microseconds lease_duration = std::chrono::seconds{30};

  /// As limiter_options::group; for enter() together with limiters of that group.
  std::string_view group = {};
};

/// Options of one enter. A zero timeout means the store's default.
struct enter_options {
  std::chrono::microseconds timeout{0};  ///< the deadline from now on, queueing included
};

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<concurrency_options> &&
              std::is_trivially_destructible_v<enter_options>);

/// What concurrency_limiter::enter() gives: a place, or the news that there is none. Movable, not
/// copyable.
///
/// While it exists and has a place, the place is kept: the library renews it by itself. Its end, or
/// release(), gives it back.
///
/// **Loss.** A place can be lost all the same: when the store has lost its data, or has not been
/// reached for as long as the lease is good. Others may get in then, so the holder should stop.
/// lost() and cancel_when_lost() tell it. The lease is good for its length from the moment before
/// its enter, or its last renewal, left this process, by this process's steady clock: if the clocks
/// run equally fast, the holder knows of a lapse before anybody else gets the place. A process that
/// was stopped learns of it when it goes on.
///
/// **Thread safety.** Different leases may be used from different threads, one lease from one
/// thread at a time.
///
/// **Object lifetime.** A lease keeps the store open and `io_context::run()` busy, until it ends or
/// the store is closed. It may outlive the store's execution context: then only release() and the
/// destructor are allowed, and do nothing; the place lapses.
class [[nodiscard]] lease {
 public:
  lease() noexcept = default;  ///< without a place
  lease(lease&& other) noexcept;
  lease& operator=(lease&& other) noexcept;
  ~lease() { release(); }

  /// Whether enter() gave a place. It stays true when the place is lost or given back; a moved-from
  /// lease has none.
  bool allowed() const noexcept { return decision_.allowed; }
  explicit operator bool() const noexcept { return allowed(); }

  /// What enter() was told: `limit`; `used`, how many are in, the new one included; if refused
  /// `retry_after`, when the next place would be free even if nobody gave one back; `reset_after`,
  /// when all would be. Of an enter() together with limiters, see there.
  const weir::decision& decision() const noexcept { return decision_; }

  /// Whether the place is still ours, as far as is known here: given, not lost, not given back, and
  /// good by this process's steady clock at this moment. For a last look before something that must
  /// not be done without it.
  bool is_held() const;

  /// Gives the place back, without waiting for the store to have heard of it: it is told at once if
  /// it can be reached, and as soon as it can be, within the time that the lease is still good;
  /// after that the place is free by itself. Whatever lost() still waits for ends with
  /// operation_aborted. May be called again, and then does nothing.
  void release() noexcept;

  /// Completes without an error when the place is lost; at once if it is. For racing the work
  /// against it:
  ///
  ///     co_await (send_request() || lease.lost(asio::use_awaitable));   // loss cancels
  ///                                                                     send_request()
  ///
  /// Asio's operator|| is for a strand, or a context with one thread, and for work that does not
  /// throw: if it does, `||` goes on to wait for the other one, and so for as long as the lease is
  /// kept. docs/concurrency.md has a race for work that throws.
  ///
  /// **Handler signature.** `void(error_code)`. The error is boost::asio::error::operation_aborted:
  /// when the place is given back first, or the operation is cancelled (any type). It is
  /// error::store_closed when the store is closed: from then on nobody renews the lease.
  ///
  /// Executor and lifetime are as for limiter's functions. Throws std::logic_error if the lease
  /// never had a place.
  template <class CompletionToken = boost::asio::deferred_t>
  auto lost(CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
        detail::check_initiation<false>{holder(), executor()}, token,
        detail::request{detail::check_kind::watch, {}, number_});
  }

  /// Emits `terminal` on the signal when the place is lost: whatever operation has the signal's
  /// slot is cancelled. The last call counts. Nothing is emitted once the lease is released,
  /// destroyed or assigned to.
  ///
  /// A signal may be used by one thread at a time: it is emitted on `executor`, which has to be
  /// where the cancelled operation runs (a strand, or a context with one thread), and where the
  /// lease is released and the signal destroyed, in that order. Throws std::logic_error if the
  /// lease never had a place.
  void cancel_when_lost(boost::asio::cancellation_signal& signal,
                        const boost::asio::any_io_executor& executor);

  /// For enter().
  lease(detail::entered&& in, const error_code& ec, const weir::decision& decision);

 private:
  const std::shared_ptr<const detail::limiter_spec>& holder() const;  // throws if there is none
  boost::asio::any_io_executor executor() const noexcept;

  std::shared_ptr<const detail::limiter_spec> core_;  // null: never had a place, or moved from
  std::int64_t number_ = 0;
  weir::decision decision_;
  std::shared_ptr<void> guard_;  // the signal may be emitted as long as this lives
};

/// A gate: at most so many at once, over all processes that use it. A handle: copies are cheap and
/// equal.
///
///     weir::concurrency_limiter gate(store, "partner-api", {.limit = 8, .lease_duration = 10s});
///     weir::lease place = co_await gate.enter("account-42");
///     if (!place) co_return come_back_after(place.decision().retry_after);
///     co_await (send_request() || place.lost(asio::use_awaitable));   // if it returns its errors:
///                                                                     see lease::lost()
///
/// Gates of the same resource, group and store count the same places, each with its own limit and
/// length. Whoever enters does so in one atomic step, which first drops the leases that have
/// lapsed: no process cleans up after another, and nothing waits for one that died, but for the
/// rest of its lease. There is no line: who is refused may ask again.
///
/// A lease is no lock with a fence: one that was paused and goes on before it hears of its loss
/// overlaps with its successor for that moment.
///
/// **Thread safety, object lifetime, executor, cancellation** are as for `limiter`. A place that
/// was given while nobody waited for it any more (cancelled, past its deadline, the connection
/// lost) is given back as soon as the store can be told, and lapses else.
class concurrency_limiter {
 public:
  /// Throws boost::system::system_error with error::invalid_policy or error::invalid_resource (of
  /// the group too).
  concurrency_limiter(const weir::store& store, std::string_view resource,
                      const concurrency_options& options);

  /// Takes a place if there is one, and answers.
  ///
  /// `subject`: whose places are counted; 1 to 65,536 bytes of any value.
  ///
  /// **Handler signature.** `void(error_code, lease)`. A gate that is full is not an error: the
  /// lease is then false. **Errors.** Those of weir::error, and operation_aborted.
  template <class CompletionToken = boost::asio::deferred_t>
  auto enter(std::string_view subject, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, ask(subject, {}, options));
  }
  template <boost::asio::completion_token_for<void(error_code, lease)> CompletionToken>
  auto enter(std::string_view subject, CompletionToken&& token) const {
    return enter(subject, enter_options{}, std::forward<CompletionToken>(token));
  }

  /// The same together with limiters of the same group (or the same resource and subject): a place
  /// is taken and all of them count, or nothing happens, in one atomic step.
  ///
  ///     weir::lease place = co_await gate.enter("account-42", per_second.on("account-42"));
  ///     if (!place) log(place.decision().tier == 0 ? "too many at once" : "too many a second");
  ///
  /// The answer is as for record_all, where the gate is the first limiter. What the limiters have
  /// counted stays counted when the place is given back.
  template <class CompletionToken = boost::asio::deferred_t>
  auto enter(std::string_view subject, std::span<const claim> also, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, ask(subject, also, options));
  }
  template <class CompletionToken = boost::asio::deferred_t>
  auto enter(std::string_view subject, const claim& also, enter_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return enter(subject, std::span(&also, 1), options, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<void(error_code, lease)> CompletionToken>
  auto enter(std::string_view subject, const claim& also, CompletionToken&& token) const {
    return enter(subject, also, enter_options{}, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<void(error_code, lease)> CompletionToken>
  auto enter(std::string_view subject, std::span<const claim> also, CompletionToken&& token) const {
    return enter(subject, also, enter_options{}, std::forward<CompletionToken>(token));
  }

  /// How many are in (`used`), and whether one more would be let in; changes nothing.
  /// `void(error_code, decision)`.
  template <class CompletionToken = boost::asio::deferred_t>
  auto fetch(std::string_view subject, fetch_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
        detail::check_initiation<true>{core_, get_executor()}, token,
        detail::request{detail::check_kind::fetch, detail::copy_of_subject(subject), 1,
                        options.timeout});
  }
  template <boost::asio::completion_token_for<void(error_code, weir::decision)> CompletionToken>
  auto fetch(std::string_view subject, CompletionToken&& token) const {
    return fetch(subject, fetch_options{}, std::forward<CompletionToken>(token));
  }

  std::string_view resource() const noexcept;
  boost::asio::any_io_executor get_executor() const noexcept;

 private:
  static detail::request ask(std::string_view subject, std::span<const claim> also,
                             enter_options options);

  template <class CompletionToken>
  auto initiate(std::remove_reference_t<CompletionToken>& token, detail::request asked) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, lease)>(
        detail::enter_initiation<lease>{core_, get_executor()}, token, std::move(asked));
  }

  std::shared_ptr<const detail::limiter_spec> core_;
};

}  // namespace weir
