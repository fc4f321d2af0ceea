#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/limiter.hpp"

namespace weir {

/// Options of the calls below, except acquire_all().
struct joint_options {
  duration timeout = {};  ///< as record_options::timeout
};

/// Options of one acquire_all().
struct joint_acquire_options {
  /// How far ahead the caller accepts a reservation, as acquire_options::max_wait.
  duration max_wait = acquire_options{}.max_wait;
  duration timeout = {};  ///< as acquire_options::timeout
};

namespace detail {

/// The limiters, subjects and costs of a joint call, copied from its claims.
struct joint_call {
  std::shared_ptr<const limiter_spec> core;
  short_text subject;
  std::int64_t cost;
  further_limiters further = {};
};

/// Throws std::invalid_argument if there is no claim. All other faults of the claims are errors of
/// the call.
WEIR_EXPORT joint_call join(std::span<const claim> claims);

/// Whether the claims' costs are the actual costs, or are ignored because everything is given back.
enum class settle_how : std::uint8_t { actual_costs, refund };

/// As join(), for settle_all() and refund_all().
WEIR_EXPORT joint_call join_settlement(std::span<const claim> claims, settle_how how);

/// CompletionToken says whether the token may be moved from.
template <class CompletionToken, class Request>
auto initiate_call(joint_call&& call, Request&& asked, std::chrono::microseconds timeout,
                   std::remove_reference_t<CompletionToken>& token) {
  return boost::asio::async_initiate<CompletionToken, void(error_code, joint_decision)>(
      check_initiation{std::move(call.core)}, token,
      joint_arguments_of<Request>{{std::move(call.subject), timeout, call.cost, std::move(asked)},
                                  std::move(call.further)});
}

/// Starts a call that makes one kind of request in all limiters.
template <class Request>
struct joint_start {
  using options_type = std::conditional_t<std::is_same_v<Request, acquire_request>,
                                          joint_acquire_options, joint_options>;

  template <class CompletionToken>
  static auto start(std::span<const claim> claims, options_type options,
                    std::remove_reference_t<CompletionToken>& token) {
    joint_call call = join(claims);
    Request asked;
    if constexpr (std::is_same_v<Request, acquire_request>) asked.max_wait = options.max_wait;
    return initiate_call<CompletionToken>(std::move(call), std::move(asked), options.timeout,
                                          token);
  }
};

/// Starts the settlement of a decision.
template <settle_how How>
struct settlement_start {
  using options_type = joint_options;

  template <class CompletionToken>
  static auto start(const joint_decision& d, std::span<const claim> claims, joint_options options,
                    std::remove_reference_t<CompletionToken>& token) {
    joint_call call = join_settlement(claims, How);
    call.further.taken = d.further;
    return initiate_call<CompletionToken>(std::move(call), settle_request{.about = d},
                                          options.timeout, token);
  }
};

template <class T>
inline constexpr bool is_claim = std::is_same_v<std::remove_cvref_t<T>, claim>;

template <class... Args>
constexpr std::size_t leading_claims() {
  std::size_t n = 0;
  bool going_on = true;
  ((going_on = going_on && is_claim<Args>, n += going_on ? 1 : 0), ...);
  return n;
}

/// Splits the arguments into claims, Options if present, and a token if present; calls
/// start<token's type>(claims, options, token).
template <class Options, class Start, class... Args>
auto take_apart(Start&& start, Args&&... args) {
  constexpr std::size_t count = leading_claims<Args...>();
  const auto all = std::forward_as_tuple(std::forward<Args>(args)...);
  const auto claims = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<claim, count>{std::get<I>(all)...};
  }(std::make_index_sequence<count>());

  constexpr bool has_options = [] {
    if constexpr (count == sizeof...(Args)) {
      return false;
    } else {
      using next = std::tuple_element_t<count, std::tuple<Args...>>;
      return std::is_same_v<std::remove_cvref_t<next>, Options>;
    }
  }();
  Options options;
  if constexpr (has_options) options = std::get<count>(all);

  constexpr std::size_t token_place = count + (has_options ? 1 : 0);
  static_assert(token_place + 1 >= sizeof...(Args), "claims, their options, a completion token");
  if constexpr (token_place == sizeof...(Args)) {
    boost::asio::deferred_t token;
    return start.template operator()<boost::asio::deferred_t>(claims, options, token);
  } else {
    using token = std::tuple_element_t<token_place, std::tuple<Args...>>;
    static_assert(boost::asio::completion_token_for<token, void(error_code, joint_decision)>,
                  "claims, their options (a timeout is one of them), a completion token");
    return start.template operator()<token>(claims, options, std::get<token_place>(all));
  }
}

/// The forms that the calls below have. `Before`: what stands before the claims.
template <class Start, class... Before>
struct joint_function {
  using options_type = typename Start::options_type;

  template <class... Args>
  auto operator()(Before... before, const claim& first, Args&&... more) const {
    return take_apart<options_type>(
        [&]<class Token>(std::span<const claim> claims, options_type options, auto& token) {
          return Start::template start<Token>(before..., claims, options, token);
        },
        first, std::forward<Args>(more)...);
  }

  template <class Token = boost::asio::deferred_t>
  auto operator()(Before... before, std::span<const claim> claims, options_type options = {},
                  Token&& token = Token()) const {
    return Start::template start<Token>(before..., claims, options, token);
  }
  template <boost::asio::completion_token_for<void(error_code, joint_decision)> Token>
  auto operator()(Before... before, std::span<const claim> claims, Token&& token) const {
    return Start::template start<Token>(before..., claims, {}, token);
  }

  // Options in braces have no type, so the first form cannot take them.
  template <class Token = boost::asio::deferred_t>
  auto operator()(Before... before, const claim& a, options_type options,
                  Token&& token = Token()) const {
    return Start::template start<Token>(before..., std::array{a}, options, token);
  }
  template <class Token = boost::asio::deferred_t>
  auto operator()(Before... before, const claim& a, const claim& b, options_type options,
                  Token&& token = Token()) const {
    return Start::template start<Token>(before..., std::array{a, b}, options, token);
  }
  template <class Token = boost::asio::deferred_t>
  auto operator()(Before... before, const claim& a, const claim& b, const claim& c,
                  options_type options, Token&& token = Token()) const {
    return Start::template start<Token>(before..., std::array{a, b, c}, options, token);
  }
  template <class Token = boost::asio::deferred_t>
  auto operator()(Before... before, const claim& a, const claim& b, const claim& c, const claim& d,
                  options_type options, Token&& token = Token()) const {
    return Start::template start<Token>(before..., std::array{a, b, c, d}, options, token);
  }
};

}  // namespace detail

/// Counts for several limiters at once if all of them allow it, otherwise for none: one atomic
/// step, one round trip.
///
/// A refusal is that of the limiter with the longest `retry_after`, and `tier` is its position
/// among the claims (a limiter with several tiers takes as many positions). With a single claim,
/// `tier` is as for limiter::record(). If all allow, `limit`, `used` and `remaining` are those of
/// the limiter with the least remaining, and `delay` is the longest.
///
/// If the store fails, the strictest of the limiters' failure policies applies: raise, closed,
/// fallback, open, in this order.
///
/// The arguments are claims, or one std::span of claims, then optionally joint_options, then
/// optionally a completion token. Options in braces, such as `{.timeout = 100ms}`, work behind a
/// span and behind up to four claims. An empty span: throws std::invalid_argument, here and in the
/// calls below. These calls are function objects, so name them with their namespace.
///
/// Each claim is `limiter.on(subject, cost)`: subject 1 to 65,536 bytes, cost 1 to max_units. The
/// limiters must be of one store and one `group` (or the same resource, subject and
/// subject_buckets), so that a Redis Cluster can route their keys. They have at most 16 tiers
/// together, no key occurs twice, and none has count_refused. `timeout`: as
/// record_options::timeout.
///
/// **Handler signature.** `void(error_code, joint_decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_duration`, `invalid_cost`, `cost_exceeds_limit`,
/// `joint_not_supported` (a Memcached store), `cannot_combine` (the limiters do not meet the
/// conditions above), operation_aborted, and the store errors of weir::error.
///
/// **Cancellation** and **thread safety** are as for `limiter`.
///
/// **Object lifetime.** As for `limiter`; the claims may be destroyed when this function has
/// returned.
///
///     weir::limiter partner{store, "partner", total, {.group = "partner"}};
///     weir::limiter consumers{store, "consumers", each, {.group = "partner"}};
///     weir::decision d = co_await weir::record_all(partner.on("all"), consumers.on(account));
///     if (!d.allowed) log(d.tier == 0 ? "partner exhausted" : "account exhausted");
inline constexpr detail::joint_function<detail::joint_start<detail::record_request>> record_all{};

/// Makes a reservation in all limiters, at one time that fits all of them, and completes when that
/// time has come. With a single claim this is limiter::acquire() with a priority of 0; the text
/// below is about several claims.
///
/// Waiting is as for limiter::acquire(), among the callers with the same claims and costs, and by
/// the options of the first limiter. The waiters have no priorities. If on_failure::fallback
/// decides, nothing is reserved: the call is counted now or refused, as by record_all().
///
/// The arguments are those of record_all(), with joint_acquire_options. `max_wait`: microseconds, 0
/// to 31 days. `timeout`: the deadline of one call to the store, not of the wait.
///
/// **Handler signature.** `void(error_code, joint_decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_duration`, `invalid_cost`, `cost_exceeds_limit`,
/// `cannot_combine`, `joint_not_supported`, `cannot_wait` (a limiter has count_refused),
/// `overloaded` (also if max_waiting callers with the same claims wait already), operation_aborted,
/// and the store errors of weir::error.
///
/// **Cancellation.** As for limiter::acquire().
///
/// **Thread safety** is as for `limiter`. **Object lifetime** is as for record_all().
inline constexpr detail::joint_function<detail::joint_start<detail::acquire_request>> acquire_all{};

/// Answers what record_all() would answer now, and counts nothing; see limiter::fetch().
///
/// The arguments are those of record_all().
///
/// **Handler signature.** `void(error_code, joint_decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_duration`, `invalid_cost`, `cost_exceeds_limit`,
/// `cannot_combine`, `joint_not_supported`, operation_aborted, and the store errors of weir::error.
/// Failure policies apply as for record_all().
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
inline constexpr detail::joint_function<detail::joint_start<detail::fetch_request>> fetch_all{};

/// Corrects a decision of several limiters to what the call really cost, once: for each limiter its
/// own actual cost, such as the requests and the tokens of one call.
///
/// Each limiter gives back or charges the difference, as limiter::settle() does: all limiters in
/// one atomic step and one round trip. With a single claim this is limiter::settle().
///
/// The answer's `allowed` is true if this call settled the decision. It is false, and nothing has
/// changed, if the decision was settled before or took nothing (refused, or made without the
/// store). `limit`, `used` and `remaining` are those of the limiter with the least remaining now,
/// and `reset_after` is the longest.
///
/// After an error the call may be repeated: it changed all limiters or none. If the key of one
/// limiter holds a foreign value (`wrong_type`), nothing has changed in the others.
/// docs/settling.md names two exceptions: a foreign entry in the middle of a log, and a command
/// that the server's ACL forbids.
///
/// `d`: the whole joint_decision of record_all() or acquire_all(), or of a lease that entered with
/// claims; the gate is not among the claims. `claims`: the same limiters (or equal ones in another
/// process) and subjects in the same order, four at most; each cost is the actual cost, 0 to
/// max_units. Then optionally joint_options and a completion token.
///
/// **Handler signature.** `void(error_code, joint_decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_duration`, `invalid_cost`, `cannot_settle` (other
/// limiters, subjects or order, more than four limiters, or a changed decision),
/// `joint_not_supported` (a Memcached store), `cannot_combine` (if the decision took nothing, the
/// limiters must meet the conditions of record_all()), `settlements_full` (memory and Memcached
/// stores), operation_aborted, and the store errors of weir::error. Failure policies do not apply.
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
///
///     auto d = co_await weir::record_all(requests.on(account), tokens.on(account, 4000));
///     ...
///     co_await weir::settle_all(d, requests.on(account), tokens.on(account, used));
inline constexpr detail::joint_function<detail::settlement_start<detail::settle_how::actual_costs>,
                                        const joint_decision&>
    settle_all{};

/// Gives back what a decision of several limiters took, in each of them: settle_all() with actual
/// costs of zero. The costs of the claims are ignored: `tokens.on(account)` is enough.
///
/// Answer, arguments and repeated calls are as for settle_all().
///
/// **Handler signature.** `void(error_code, joint_decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_duration`, `cannot_settle`, `cannot_combine`,
/// `joint_not_supported`, `settlements_full` (memory and Memcached stores), operation_aborted, and
/// the store errors of weir::error, as for settle_all(). Failure policies do not apply.
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
inline constexpr detail::joint_function<detail::settlement_start<detail::settle_how::refund>,
                                        const joint_decision&>
    refund_all{};

static_assert(std::is_trivially_destructible_v<joint_options>);
static_assert(std::is_trivially_destructible_v<joint_acquire_options>);

}  // namespace weir
