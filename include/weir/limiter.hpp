#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/check_operation.hpp"
#include "weir/feedback.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"
#include "weir/store.hpp"

namespace weir {

/// What on_response() can take as it is: the messages of Boost.Beast, without needing them here.
template <class Response>
concept http_response = requires(const Response& r) {
  static_cast<int>(r.result_int());
  std::string_view(r.begin()->name_string());
  std::string_view(r.begin()->value());
};

class limiter;
struct claim;
struct joint_options;

namespace detail {
struct joint_call;
joint_call join(std::span<const claim>, check_kind, joint_options);
}  // namespace detail

/// A subject of a limiter, and a cost; see limiter::on().
struct claim {
  const weir::limiter* limiter;
  std::string_view subject;
  std::int64_t cost;
};
static_assert(std::is_trivially_destructible_v<claim>);

/// Ties a resource, a policy and a store together. A handle: copies are cheap and equal.
///
/// **Thread safety.** Every function may be called from any thread, also on the same limiter.
///
/// **Object lifetime.** A pending call keeps what it needs alive; the limiter and the subject's
/// text may go at once. Once the store's execution context is destroyed, only the destructor may be
/// called.
///
/// All asynchronous functions below have this in common:
///
/// **Handler signature.** `void(error_code, decision)`, for reset `void(error_code)`. With
/// `co_await` and no token, an error is thrown as boost::system::system_error.
///
/// **Executor.** The handler runs on its associated executor, by default the store's, and never
/// inside the initiating function. It must not block: other handlers may be waiting behind it.
///
/// **Per-operation cancellation.** `terminal`, `partial`: the caller is dropped at any stage, with
/// boost::asio::error::operation_aborted; a check that was sent may have counted. `total`: only
/// while nothing was sent. Inside a coroutine, cancel the coroutine (its slot is used by itself),
/// or race the call with awaitable_operators; with a callback, boost::asio::bind_cancellation_slot.
/// A deadline needs none of this: see `timeout`.
///
/// **Errors.** Those of weir::error, and operation_aborted. `ec == condition::not_counted` and `ec
/// == condition::may_have_counted` say what is known about the count. A refusal is not an error.
class limiter {
 public:
  /// `resource` names what is protected; limiters of the same resource, kind of policy (and place
  /// among tiers), group and store share their counts. Between 1 and 1024 bytes, of any value.
  ///
  /// `options`: a group, and what becomes of a call when the store cannot say. Such a decision's
  /// `source` is source::fallback, and its `retry_after`, if refused by on_failure::closed, is one
  /// second.
  ///
  /// Throws boost::system::system_error with error::invalid_policy or error::invalid_resource (of
  /// the group too).
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

  /// Waits for the turn: counts the request at the first time at which it fits, behind all that
  /// came before it, and completes then. The turn is booked in the store, in one round trip, and
  /// the caller sleeps once: so the order of arrival at the store holds across processes, and a
  /// large cost is not starved by small ones. record() is refused meanwhile. While the store is
  /// away, the question is repeated: see acquire_options::timeout.
  ///
  /// If the turn lies beyond `max_wait`, the call is refused at once, and nothing is booked:
  /// `retry_after` is when the same would be booked. If allowed, `delay` is how long it took from
  /// `decided_at` until the turn.
  ///
  /// Turns of one subject and cost that were booked through this limiter in this process are
  /// exchanged as they come: whoever has the largest priority goes first, and of equal ones who
  /// came first, unless the other would then wait beyond its `max_wait`.
  ///
  /// Cancelled while it waits, it gives a turn back as far as that leaves the others theirs: all of
  /// it if nobody stands behind, and what is left of a bucket, window or log otherwise. A turn
  /// whose holder died counts as used. When the store is closed, waiters give their turns back; see
  /// store::close().
  ///
  /// A waiter whose turn lies in a cool-down that this process knows of waits for its end, or is
  /// refused if that is beyond its `max_wait`.
  ///
  /// With count_refused, nobody can wait: error::cannot_wait.
  ///
  /// As many as limiter_options::max_waiting wait for a subject; limiter_options::overflow says
  /// what becomes of the others, which get error::overloaded. All of this at length:
  /// docs/waiting.md.
  template <class CompletionToken = boost::asio::deferred_t>
  auto acquire(std::string_view subject, acquire_options options = {},
               CompletionToken&& token = CompletionToken()) const {
    return initiate<true, CompletionToken>(token, detail::check_kind::acquire, subject,
                                           options.cost, options.timeout, options.max_wait,
                                           options.priority);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto acquire(std::string_view subject, CompletionToken&& token) const {
    return acquire(subject, acquire_options{}, std::forward<CompletionToken>(token));
  }

  /// Asks without counting: `allowed`, `retry_after` and `delay` are what record would answer now;
  /// `used`, `remaining` and `reset_after` describe the subject as it stands.
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

  /// Gives back what an allowed decision took, once: for a call that was not made after all.
  /// Exactly that is taken out, from where it was counted: nothing, once it no longer counts there;
  /// of a bucket as much as has not drained yet, and as leaves later requests theirs
  /// (docs/settling.md). So it never lets more pass than would have passed if the decision had
  /// never been asked for. One exception: a fixed_window that began with the request
  /// (anchor::first_request) stays open, and would have begun later without it; each of its windows
  /// still keeps the limit.
  ///
  /// `subject`, `d`: of a record() or acquire() of this limiter, or of one like it in another
  /// process; else error::cannot_settle. If the decision took nothing (refused, or made without the
  /// store), the store is only asked how the subject stands. All decisions with count_refused take
  /// nothing in this sense. For those of several limiters, as record_all() gives, see refund_all().
  ///
  /// The answer's `allowed` tells whether this was the first time that the decision was settled; if
  /// not, nothing has changed. `limit`, `used`, `remaining` and `reset_after` are the subject as it
  /// stands now. After an error it may be tried again, also if condition::may_have_counted: the
  /// store remembers what was settled, for as long as anything could be given back, and a minute at
  /// the least; that is a key of its own in Redis. Should the server lose that key, this process
  /// still settles the decision only once within a minute. Failure policies do not apply. After a
  /// reset() do not settle what was decided before: the store no longer knows that it was counted.
  template <class CompletionToken = boost::asio::deferred_t>
  auto refund(std::string_view subject, const decision& d, settle_options options = {},
              CompletionToken&& token = CompletionToken()) const {
    return settle<CompletionToken>(subject, d, 0, options, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto refund(std::string_view subject, const decision& d, CompletionToken&& token) const {
    return refund(subject, d, settle_options{}, std::forward<CompletionToken>(token));
  }

  /// Charges what a call really cost, once that is known: LLM tokens, GraphQL points, bytes. If
  /// less than the decision took, the difference is given back as by refund(); if more, it is
  /// counted now, whatever the limit says: a bucket goes into debt, a window beyond its limit, and
  /// others wait longer for that. (Of a bucket a debt of 71 years is the most.) A decision that is
  /// never settled counts for what it took.
  ///
  /// `actual_cost`: 0 to max_units. A decision can be refunded or settled once, not both; all else
  /// is as for refund(). But a charge that is repeated more than a minute later, when its window
  /// has passed, counts again.
  template <class CompletionToken = boost::asio::deferred_t>
  auto settle(std::string_view subject, const decision& d, std::int64_t actual_cost,
              settle_options options = {}, CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
        detail::check_initiation<true>{core_, get_executor()}, token,
        detail::request{detail::check_kind::settle, detail::copy_of_subject(subject), actual_cost,
                        options.timeout},
        d);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto settle(std::string_view subject, const decision& d, std::int64_t actual_cost,
              CompletionToken&& token) const {
    return settle(subject, d, actual_cost, settle_options{}, std::forward<CompletionToken>(token));
  }

  /// Holds the subject back for so long, everywhere: until then each check of it is refused, with
  /// `cooling_down` and the rest of the pause in `retry_after`. For when a vendor says 429. Counted
  /// on the store's clock; later calls can only prolong it; reset() ends it. A `pause` above
  /// limiter_options::max_cool_down is cut to that, and the decision says `clamped`. A pause of
  /// zero or less changes nothing: it only asks whether there is one.
  ///
  /// During a cool-down, `retry_after` gets random jitter, up to 10 % and at most 1 s: so a fleet
  /// that was told to wait does not come back in one moment. Turns of acquire() are booked behind
  /// the pause, as the limits allow from its end on: what the policy lets through at once, goes at
  /// once.
  ///
  /// The decision is for how long the subject is held back now: refused, `cooling_down`, and
  /// `retry_after`, exactly. Of an error, the pause may have been imposed; trying again does no
  /// harm. Failure policies do not apply to it, and what they decide knows nothing of a pause.
  /// Needs limiter_options::cool_downs, else error::cool_downs_disabled.
  template <class CompletionToken = boost::asio::deferred_t>
  auto cool_down(std::string_view subject, std::chrono::microseconds pause,
                 cool_down_options options = {},
                 CompletionToken&& token = CompletionToken()) const {
    return initiate<true, CompletionToken>(token, detail::check_kind::cool_down, subject,
                                           pause.count(), options.timeout);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto cool_down(std::string_view subject, std::chrono::microseconds pause,
                 CompletionToken&& token) const {
    return cool_down(subject, pause, cool_down_options{}, std::forward<CompletionToken>(token));
  }

  /// Takes in what a vendor's response says, read_feedback() tells what that may be, and holds the
  /// subject back for as long as it asks for, as cool_down() does: until the time in Retry-After,
  /// or until the vendor's window starts anew when nothing is left in it; for
  /// limiter_options::default_cool_down, if a call was turned away and no time was given, or zero.
  /// Call it for every response: if it asks for no pause, nothing is sent, and the decision is
  /// `allowed`.
  ///
  /// With limiter_options::sync_remaining_with, a response that asks for no pause and says how much
  /// is left in the vendor's window lowers `remaining` here to that, in one atomic step; it never
  /// raises it. It concerns the tiers that have the limit of which the vendor speaks, or all, if
  /// there is no such. The decision is then allowed, and tells how the subject stands.
  ///
  /// `status`, `headers`: of HTTP; read inside the call, by the clock of this process.
  template <class CompletionToken = boost::asio::deferred_t>
  auto on_response(std::string_view subject, int status, std::span<const header_field> headers,
                   response_options options = {},
                   CompletionToken&& token = CompletionToken()) const {
    const answer_to_vendor to = heed(status, headers, options);
    return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
        detail::check_initiation<true>{core_, get_executor()}, token,
        detail::request{to.kind, detail::copy_of_subject(subject), to.cost, options.timeout},
        to.about);
  }
  template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
  auto on_response(std::string_view subject, int status, std::span<const header_field> headers,
                   CompletionToken&& token) const {
    return on_response(subject, status, headers, response_options{},
                       std::forward<CompletionToken>(token));
  }

  /// The same of a response as Boost.Beast has it.
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

  /// Forgets the subject, as if it had never called nor been held back.
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

  /// This limiter's part in record_all(), settle_all() and the like. Holds views: for the call at
  /// hand only.
  claim on(std::string_view subject, std::int64_t cost = 1) const noexcept {
    return {this, subject, cost};
  }

  std::string_view resource() const noexcept;
  boost::asio::any_io_executor get_executor() const noexcept;

 private:
  struct answer_to_vendor {
    detail::check_kind kind;
    std::int64_t cost;
    decision about;
  };
  answer_to_vendor heed(int status, std::span<const header_field> headers,
                        const response_options& options) const;

  friend detail::joint_call detail::join(std::span<const claim>, detail::check_kind, joint_options);

  template <bool Answers, class CompletionToken>
  auto initiate(std::remove_reference_t<CompletionToken>& token, detail::check_kind kind,
                std::string_view subject, std::int64_t cost, std::chrono::microseconds timeout,
                std::chrono::microseconds max_wait = std::chrono::microseconds{0},
                std::int32_t priority = 0) const {
    using signature = std::conditional_t<Answers, void(error_code, decision), void(error_code)>;
    // The token's own category says whether it may be moved from. The subject is copied here and
    // now: a deferred operation may start after the caller's text is gone.
    return boost::asio::async_initiate<CompletionToken, signature>(
        detail::check_initiation<Answers>{core_, get_executor()}, token,
        detail::request{
            kind, detail::copy_of_subject(subject), cost, timeout, {}, max_wait, priority});
  }

  std::shared_ptr<const detail::limiter_spec> core_;
};

}  // namespace weir
