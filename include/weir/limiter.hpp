#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "weir/decision.hpp"
#include "weir/detail/check_operation.hpp"
#include "weir/policy.hpp"
#include "weir/store.hpp"

namespace weir {

/// What becomes of a call when the store cannot say. Mistakes in the call itself and cancellation are always errors.
enum class on_failure : std::uint8_t {
  raise,     ///< an error
  open,      ///< allowed
  closed,    ///< refused
  fallback,  ///< the policy itself, counted in this process, with this process's share of the limit
};

struct limiter_options {
  weir::on_failure on_failure = weir::on_failure::raise;

  /// on_failure::fallback: how many processes share the limit, at least 1. Each falls back to limit / expected_clients
  /// (capacity, burst and rate alike), but never below one unit.
  std::int64_t expected_clients = 1;

  /// on_failure::fallback: subjects remembered at the most; others are refused until some no longer matter.
  std::size_t fallback_subjects = 100'000;

  /// Limiters of one group can be asked together, see record_all(): all their keys lie in one slot of a Redis Cluster
  /// (and one shard of a memory store). At most 1024 bytes; empty: each subject of this limiter has a slot of its own.
  std::string_view group = {};
};

/// Options of one record. A zero timeout means the store's default.
struct record_options {
  std::int64_t cost = 1;                 ///< units, 1 to max_units
  std::chrono::microseconds timeout{0};  ///< the deadline from now on, queueing included
};

/// Options of one fetch.
struct fetch_options {
  std::int64_t cost = 1;
  std::chrono::microseconds timeout{0};
};

/// Options of one reset.
struct reset_options {
  std::chrono::microseconds timeout{0};
};

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<record_options> &&
              std::is_trivially_destructible_v<fetch_options> &&
              std::is_trivially_destructible_v<reset_options>);

class limiter;
struct claim;
struct joint_options;

namespace detail {
struct joint_call;
joint_call join(std::span<const claim>, check_kind, joint_options);
}  // namespace detail

/// A subject of a limiter, and a cost; see limiter::on().
struct claim {
  const limiter* of;
  std::string_view subject;
  std::int64_t cost;
};
static_assert(std::is_trivially_destructible_v<claim>);

/// Ties a resource, a policy and a store together. A handle: copies are cheap and equal.
///
/// **Thread safety.** Every function may be called from any thread, also on the same limiter.
///
/// **Object lifetime.** A pending call keeps what it needs alive; the limiter and the subject's text may go at once.
///
/// All asynchronous functions below have this in common:
///
/// **Handler signature.** `void(error_code, decision)`, for reset `void(error_code)`. With `co_await` and no token, an
/// error is thrown as boost::system::system_error.
///
/// **Executor.** The handler runs on its associated executor, by default the store's, and never inside the initiating
/// function. It must not block: other handlers may be waiting behind it.
///
/// **Per-operation cancellation.** `terminal`, `partial`: the caller is dropped at any stage, with
/// boost::asio::error::operation_aborted; a check that was sent may have counted. `total`: only while nothing was sent.
/// Inside a coroutine, cancel the coroutine (its slot is used by itself), or race the call with awaitable_operators; with a
/// callback, boost::asio::bind_cancellation_slot. A deadline needs none of this: see `timeout`.
///
/// **Errors.** Those of weir::error, and operation_aborted. `ec == condition::not_counted` and
/// `ec == condition::may_have_counted` say what is known about the count. A refusal is not an error.
class limiter {
 public:
  /// `resource` names what is protected; limiters of the same resource, kind of policy (and place among tiers), group and
  /// store share their counts. Between 1 and 1024 bytes, of any value.
  ///
  /// `options`: a group, and what becomes of a call when the store cannot say. Such a decision's `source` is source::fallback, and its
  /// `retry_after`, if refused by on_failure::closed, is one second.
  ///
  /// Throws boost::system::system_error with error::invalid_policy or error::invalid_resource (of the
  /// group too).
  limiter(const weir::store& store, std::string_view resource, const weir::policy& policy,
          const limiter_options& options = {});
  limiter(const weir::store& store, std::string_view resource, const weir::tiers& tiers,
          const limiter_options& options = {});

  /// Counts the request if it fits, in one atomic step, and answers.
  ///
  /// `subject`: who calls; 1 to 65,536 bytes of any value.
  template <class CompletionToken = boost::asio::deferred_t>
  auto record(std::string_view subject, record_options options = {},
              CompletionToken&& token = CompletionToken()) const {
    return initiate<true, CompletionToken>(token, detail::check_kind::record, subject, options.cost,
                                           options.timeout);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto record(std::string_view subject, CompletionToken&& token) const {
    return record(subject, record_options{}, std::forward<CompletionToken>(token));
  }

  /// Asks without counting: `allowed`, `retry_after` and `delay` are what record would answer now; `used`, `remaining`
  /// and `reset_after` describe the subject as it stands.
  template <class CompletionToken = boost::asio::deferred_t>
  auto fetch(std::string_view subject, fetch_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<true, CompletionToken>(token, detail::check_kind::fetch, subject, options.cost,
                                           options.timeout);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto fetch(std::string_view subject, CompletionToken&& token) const {
    return fetch(subject, fetch_options{}, std::forward<CompletionToken>(token));
  }

  /// Forgets the subject, as if it had never called.
  template <class CompletionToken = boost::asio::deferred_t>
  auto reset(std::string_view subject, reset_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<false, CompletionToken>(token, detail::check_kind::reset, subject, 1,
                                            options.timeout);
  }
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken>
  auto reset(std::string_view subject, CompletionToken&& token) const {
    return reset(subject, reset_options{}, std::forward<CompletionToken>(token));
  }

  /// This limiter's part in record_all() or fetch_all(). Holds views: for the call at hand only.
  claim on(std::string_view subject, std::int64_t cost = 1) const noexcept {
    return {this, subject, cost};
  }

  std::string_view resource() const noexcept;
  boost::asio::any_io_executor get_executor() const noexcept;

 private:
  friend detail::joint_call detail::join(std::span<const claim>, detail::check_kind, joint_options);

  template <bool Answers, class CompletionToken>
  auto initiate(std::remove_reference_t<CompletionToken>& token, detail::check_kind kind,
                std::string_view subject, std::int64_t cost,
                std::chrono::microseconds timeout) const {
    using signature = std::conditional_t<Answers, void(error_code, decision), void(error_code)>;
    // The token's own category says whether it may be moved from.
    // The subject is copied here and now: a deferred operation may start after the caller's text is gone.
    return boost::asio::async_initiate<CompletionToken, signature>(
        detail::check_initiation<Answers>{core_, get_executor()}, token,
        detail::request{kind, detail::copy_of_subject(subject), cost, timeout});
  }

  std::shared_ptr<const detail::limiter_core> core_;
};

}  // namespace weir
