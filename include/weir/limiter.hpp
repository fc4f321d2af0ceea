#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weir/claim.hpp"
#include "weir/decision.hpp"
#include "weir/detail/check_operation.hpp"
#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/feedback.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"
#include "weir/stats.hpp"
#include "weir/store.hpp"

namespace weir {

namespace detail {
struct joint_call;
WEIR_EXPORT joint_call join(std::span<const claim>);
}  // namespace detail

/// Ties a resource, a policy and a store together. A handle: copies are cheap and equal.
///
/// Make a limiter once, and keep it or its copies for as long as the process limits that resource.
/// Copies share the queue of waiters, the deny cache, the local units and the fallback's counts.
/// Two limiters that are made separately share only what the store counts.
///
/// What follows holds for every asynchronous function of this class; those of record_all.hpp and
/// concurrency_limiter refer to it. A function adds only what is its own.
///
/// **Handler signature.** `void(error_code, decision)`; for reset() `void(error_code)`. With
/// `co_await` and no token, an error is thrown as boost::system::system_error. A refusal is a
/// decision, not an error.
///
/// **Executor.** The handler runs on its associated executor, by default the store's, and never
/// inside the initiating function. It must not block, because other handlers wait behind it.
///
/// **Errors.** `invalid_subject`, `invalid_duration` (a negative timeout), operation_aborted, those
/// that a function names, and the store errors (see weir::error). limiter_options::on_failure may
/// turn a store error of record(), acquire() or fetch() into a decision, and no error of another
/// function.
///
/// **Cancellation.** A cancelled call ends with boost::asio::error::operation_aborted. `terminal`
/// and `partial` cancel it at any stage; if the check was sent, it may have counted. `total`
/// cancels it only while the check is unsent. In a coroutine, cancel the coroutine or race the call
/// in a parallel group (docs/waiting.md#cancellation); with a callback, use
/// boost::asio::bind_cancellation_slot. A deadline needs no cancellation: set `timeout`.
///
/// **Thread safety.** Any thread may call any function, also on the same limiter at the same time.
///
/// **Object lifetime.** A pending call keeps what it needs alive: the limiter and the subject's
/// text may be destroyed at once. After the store's execution context is destroyed, a limiter may
/// only be moved or destroyed.
class WEIR_EXPORT limiter {
 public:
  using executor_type = boost::asio::any_io_executor;

  /// `resource`: the name of the API that is limited; 1 to 1024 bytes of any value. Limiters with
  /// the same resource, kind of policy (and position among the tiers), group, subject_buckets and
  /// store share their counts. If their policies differ, a call through one may drop what the other
  /// has counted, even if it is refused: docs/policies.md describes plans that share a subject.
  ///
  /// `rule`, `rules`: the policy of each subject, or several as tiers; policy.hpp has their ranges.
  /// `options`: the group, the failure policy, cool-downs and waiting. The limiter keeps a copy of
  /// the store's handle and of all texts.
  ///
  /// Throws boost::system::system_error with `invalid_policy` (a number of the policy or of the
  /// options is out of range, two options contradict each other, or the store cannot do what an
  /// option asks), `invalid_resource` (for the resource and for the group) or `invalid_options`
  /// (the store was moved from).
  limiter(const weir::store& store, std::string_view resource, const weir::policy& rule,
          const limiter_options& options = {});
  limiter(const weir::store& store, std::string_view resource, const weir::tiers& rules,
          const limiter_options& options = {});

  /// Counts the request if it fits, in one atomic step, and answers at once.
  ///
  /// A decision that limiter_options::on_failure made of a store error has source::fallback. With
  /// on_failure::closed, it is a refusal with a `retry_after` of one second.
  ///
  /// `subject`: the account or client that is counted; 1 to 65,536 bytes of any value.
  /// `options.cost`: units, 1 to max_units. `options.timeout`: see record_options.
  ///
  /// **Errors.** `invalid_cost`, `cost_exceeds_limit`.
  ///
  ///     decision d = co_await partner.record("account-42", {.cost = 3});
  ///     if (!d.allowed) co_return come_back_after(d.retry_after);
  template <class CompletionToken = boost::asio::deferred_t>
  auto record(std::string_view subject, record_options options = {},
              CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, options.cost,
                                     detail::record_request{});
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto record(std::string_view subject, CompletionToken&& token) const {
    return record(subject, record_options{}, std::forward<CompletionToken>(token));
  }

  /// Makes a reservation in the store and completes when its time has come.
  ///
  /// The store reserves the first time at which the request fits, behind all earlier reservations,
  /// and counts the request there, in one round trip. The caller sleeps once. So the order of
  /// arrival at the store holds across processes, and small requests do not starve a large one.
  /// record() is refused while a reservation lies ahead, unless a bucket has room behind it.
  ///
  /// If that time lies beyond `max_wait`, the call is refused at once and nothing is reserved.
  /// After `retry_after`, the same call would be accepted if no other comes. If allowed, `delay` is
  /// the time from `decided_at` until the reservation.
  ///
  /// Waiters of one subject and cost that wait through this limiter and its copies exchange their
  /// reservations: the waiter with the largest priority goes first, and among equal priorities the
  /// first to arrive, unless another waiter would then wait beyond its own `max_wait`. If a
  /// cool-down covers the reservation, the waiter gets another one behind it, or is refused.
  ///
  /// While the store is away, the call to the store is repeated: see acquire_options::timeout.
  /// docs/waiting.md describes all of this.
  ///
  /// `subject`, `options.cost`: as for record(). `options.max_wait`: 0 to 31 days.
  /// `options.timeout`: the deadline of one call to the store, not of the wait. `options.priority`:
  /// a larger one goes first.
  ///
  /// **Errors.** `invalid_cost`, `cost_exceeds_limit`, `cannot_wait` (the policy has
  /// count_refused); `overloaded` also if limiter_options::overflow refuses the waiter.
  ///
  /// **Cancellation.** `terminal` and `partial` end the waiter at any stage and give its
  /// reservation back: all of it if it is the last one, otherwise as much as leaves the other
  /// reservations unchanged. store::close() ends every waiter, too.
  ///
  ///     decision d = co_await partner.acquire("account-42", {.max_wait = 5s});
  ///     if (!d.allowed) co_return come_back_after(d.retry_after);
  template <class CompletionToken = boost::asio::deferred_t>
  auto acquire(std::string_view subject, acquire_options options = {},
               CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, options.cost,
                                     detail::acquire_request{options.max_wait, options.priority});
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto acquire(std::string_view subject, CompletionToken&& token) const {
    return acquire(subject, acquire_options{}, std::forward<CompletionToken>(token));
  }
  /// The same with a `max_wait` alone: `co_await partner.acquire("account-42", 5s)`.
  template <class Rep, class Period, class CompletionToken = boost::asio::deferred_t>
    requires detail::duration_source<Rep, Period>
  auto acquire(std::string_view subject, const std::chrono::duration<Rep, Period>& max_wait,
               CompletionToken&& token = CompletionToken()) const {
    return acquire(subject, acquire_options{.max_wait = max_wait},
                   std::forward<CompletionToken>(token));
  }

  /// Answers what the store would answer to a record() now, and counts nothing. `allowed`,
  /// `retry_after` and `delay` are those of such a record(); `used`, `remaining` and `reset_after`
  /// describe the subject as it is. A deny cache or local units may answer a record() otherwise.
  ///
  /// `subject`, `options`: as for record().
  ///
  /// **Errors.** `invalid_cost`, `cost_exceeds_limit`.
  template <class CompletionToken = boost::asio::deferred_t>
  auto fetch(std::string_view subject, fetch_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, options.cost,
                                     detail::fetch_request{});
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto fetch(std::string_view subject, CompletionToken&& token) const {
    return fetch(subject, fetch_options{}, std::forward<CompletionToken>(token));
  }

  /// Gives back what an allowed decision took, once: for a call that was not made after all.
  ///
  /// The store takes the units of this decision out of the state that counted them, as far as they
  /// still count there: a window that is over gives back nothing, and a bucket gives back what has
  /// not drained yet and what no later request depends on. So no more passes than if this request
  /// had never come; docs/settling.md has the exceptions.
  ///
  /// The answer's `allowed` is true if this call settled the decision. It is false, and nothing has
  /// changed, if the decision was settled before, was refused, or was made without the store or
  /// with count_refused. `limit`, `used`, `remaining` and `reset_after` describe the subject now;
  /// in a cool-down, `remaining` is 0.
  ///
  /// After an error the call may be repeated, also if condition::may_have_counted: the store
  /// remembers what was settled (docs/settling.md says how long). Do not settle a decision from
  /// before a reset(): the store has forgotten its units.
  ///
  /// `subject`, `d`: the subject and the decision of a record() or acquire() of this limiter, or of
  /// an equal one in another process. For a decision of several limiters see refund_all().
  /// `options.timeout`: as for record().
  ///
  /// **Errors.** `cannot_settle` (the decision belongs to another limiter, policy or subject, or
  /// was changed), `settlements_full` (memory and Memcached stores).
  ///
  ///     decision d = co_await partner.record("account-42");
  ///     if (d.allowed && !worth_sending()) co_await partner.refund("account-42", d);
  template <class CompletionToken = boost::asio::deferred_t>
  auto refund(std::string_view subject, const decision& d, settle_options options = {},
              CompletionToken&& token = CompletionToken()) const {
    return settle<CompletionToken>(subject, d, 0, options, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto refund(std::string_view subject, const decision& d, CompletionToken&& token) const {
    return refund(subject, d, settle_options{}, std::forward<CompletionToken>(token));
  }

  /// Corrects a decision to what the call really cost (LLM tokens, GraphQL points, bytes), once.
  ///
  /// If the actual cost is below what the decision took, the store gives the difference back as
  /// refund() does. If it is above, the store charges the difference now, even beyond the limit: a
  /// bucket goes into debt, by 71 years at most, and a window exceeds its limit, so later requests
  /// wait longer. A decision that is never settled counts for what it took. A decision can be
  /// refunded or settled once, not both.
  ///
  /// The answer, and what a repeated call does, are as for refund(). One exception: a charge that
  /// is repeated more than a minute later, when its window has passed, counts again.
  ///
  /// `subject`, `d`, `options`: as for refund(). `actual_cost`: units, 0 to max_units.
  ///
  /// **Errors.** As for refund(), and `invalid_cost`.
  ///
  ///     decision d = co_await tokens.record(account, {.cost = 4000});  // an upper estimate
  ///     co_await tokens.settle(account, d, usage.total_tokens);
  template <class CompletionToken = boost::asio::deferred_t>
  auto settle(std::string_view subject, const decision& d, std::int64_t actual_cost,
              settle_options options = {}, CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, actual_cost,
                                     detail::settle_request{.about = d});
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto settle(std::string_view subject, const decision& d, std::int64_t actual_cost,
              CompletionToken&& token) const {
    return settle(subject, d, actual_cost, settle_options{}, std::forward<CompletionToken>(token));
  }
  /// A fraction of a unit would be lost: round the cost first.
  template <std::floating_point Cost, class... Rest>
  auto settle(std::string_view subject, const decision& d, Cost actual_cost,
              Rest&&...) const = delete;

  /// Starts a cool-down, for a vendor that answers 429: until its end, by the store's clock, the
  /// store refuses each check of the subject, in every process, with `cooling_down` and the
  /// remaining time in `retry_after`. A later call can only prolong it; reset() ends it.
  ///
  /// During a cool-down, `retry_after` of a check gets random jitter, up to 10 % and at most 1 s,
  /// so that the callers do not return at one moment. Reservations of acquire() are placed behind
  /// the cool-down, as the policy allows from its end on, without jitter.
  ///
  /// The decision describes the cool-down now, not the policy's counts: `limit` is unlimited and
  /// `used` is 0. If there is a cool-down, the decision is a refusal with `cooling_down`, and
  /// `retry_after` has no jitter. After an error the cool-down may have started; repeating the call
  /// does no harm.
  ///
  /// `subject`, `options.timeout`: as for record(). `duration`: limiter_options::max_cool_down cuts
  /// it, and the decision says `clamped`; 0 only asks whether there is a cool-down.
  ///
  /// **Errors.** `cool_downs_disabled` (needs limiter_options::cool_downs); `invalid_duration` also
  /// if `duration` is negative. The decisions of limiter_options::on_failure ignore cool-downs.
  template <class CompletionToken = boost::asio::deferred_t>
  auto cool_down(std::string_view subject, weir::duration duration, cool_down_options options = {},
                 CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, duration.count(),
                                     detail::cool_down_request{});
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto cool_down(std::string_view subject, weir::duration duration, CompletionToken&& token) const {
    return cool_down(subject, duration, cool_down_options{}, std::forward<CompletionToken>(token));
  }

  /// Reads a vendor's response with read_feedback() and starts the cool-down that it asks for, and
  /// answers as cool_down() does. Call it for every response whose headers speak of this subject.
  ///
  /// The cool-down lasts until the time in Retry-After, or until the reset of a window with nothing
  /// left (docs/vendor_feedback.md). If the vendor refused the call and gave no time, or a time of
  /// zero, it lasts limiter_options::default_cool_down, or longer if the vendor goes on refusing:
  /// see default_cool_down_doubles.
  ///
  /// If the response asks for no cool-down, nothing is sent: the decision is `allowed`, and its
  /// numbers mean nothing.
  ///
  /// Two exceptions. The first response with a status below 400 after a cool-down that this process
  /// has met tells the store that the vendor serves calls again; the decision is that of a
  /// cool_down() of zero. And with limiter_options::sync_remaining_with, if the response says how
  /// much is left in the vendor's window, the store lowers `remaining` to that number and never
  /// raises it: docs/vendor_feedback.md says of which tiers. The decision is then allowed and
  /// describes the subject. Nothing is sent if response_options::known_remaining is not above that
  /// number.
  ///
  /// `subject`: as for record(). `status`, `headers`: of the HTTP response; this function reads
  /// them before it returns, by the clock of this process. `options`: see response_options.
  ///
  /// **Errors.** `cool_downs_disabled`.
  ///
  /// **Object lifetime.** The headers may be destroyed when this function has returned.
  ///
  ///     response r = co_await send_request();
  ///     co_await partner.on_response("account-42", r.status, headers);
  template <class CompletionToken = boost::asio::deferred_t>
  auto on_response(std::string_view subject, int status, std::span<const header_field> headers,
                   response_options options = {},
                   CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
        detail::check_initiation{core_}, token, arguments_after(subject, status, headers, options));
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto on_response(std::string_view subject, int status, std::span<const header_field> headers,
                   CompletionToken&& token) const {
    return on_response(subject, status, headers, response_options{},
                       std::forward<CompletionToken>(token));
  }

  /// The same for a response of Boost.Beast.
  template <http_response Response, class CompletionToken = boost::asio::deferred_t>
  auto on_response(std::string_view subject, const Response& response,
                   response_options options = {},
                   CompletionToken&& token = CompletionToken()) const {
    std::vector<header_field> fields;
    for (const auto& field : response) fields.push_back({field.name_string(), field.value()});
    return on_response(subject, static_cast<int>(response.result_int()), fields, options,
                       std::forward<CompletionToken>(token));
  }
  template <http_response Response,
            boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto on_response(std::string_view subject, const Response& response,
                   CompletionToken&& token) const {
    return on_response(subject, response, response_options{}, std::forward<CompletionToken>(token));
  }

  /// Forgets what the store counted for the subject, and ends its cool-down.
  ///
  /// Also deletes what this limiter cannot read: a key that is not its state (`wrong_type`), and a
  /// state of a later version of weir (`newer_state`), which no other call changes.
  ///
  /// Waiters of acquire() that already wait for the end of that cool-down still wait until then.
  ///
  /// `subject`, `options.timeout`: as for record().
  template <class CompletionToken = boost::asio::deferred_t>
  auto reset(std::string_view subject, reset_options options = {},
             CompletionToken&& token = CompletionToken()) const {
    return initiate<CompletionToken>(token, subject, options.timeout, 0, detail::reset_request{});
  }
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken>
  auto reset(std::string_view subject, CompletionToken&& token) const {
    return reset(subject, reset_options{}, std::forward<CompletionToken>(token));
  }

  /// What the calls of this limiter and its copies have come to in this process. Throws only
  /// std::bad_alloc. Any thread may call it.
  limiter_stats stats() const;

  /// This limiter, a subject and a cost, for record_all(), settle_all() and the like. The claim
  /// holds a pointer to the limiter and a view of the subject: use it in one call only.
  [[nodiscard]] claim on(std::string_view subject, std::int64_t cost = 1) const noexcept {
    return {this, subject, cost};
  }
  /// A fraction of a unit would be lost: round the cost first.
  template <std::floating_point Cost>
  claim on(std::string_view subject, Cost cost) const = delete;

  /// The resource that the constructor got. The view is valid while this limiter or a copy exists.
  std::string_view resource() const noexcept;

  /// The policy that the constructor got, as one tier, or its tiers.
  weir::tiers policy() const noexcept;

  /// The store's executor, where handlers without an executor of their own run.
  executor_type get_executor() const noexcept;

 private:
  using feedback_arguments = std::variant<detail::arguments_of<detail::cool_down_request>,
                                          detail::arguments_of<detail::settle_request>>;
  feedback_arguments arguments_after(std::string_view subject, int status,
                                     std::span<const header_field> headers,
                                     const response_options& options) const;

  friend detail::joint_call detail::join(std::span<const claim>);

  template <class CompletionToken, class Request>
  auto initiate(std::remove_reference_t<CompletionToken>& token, std::string_view subject,
                std::chrono::microseconds timeout, std::int64_t units, Request asked) const {
    return detail::initiate<CompletionToken>(core_, token, subject, timeout, units,
                                             std::move(asked));
  }

  std::shared_ptr<const detail::limiter_spec> core_;
};

}  // namespace weir
