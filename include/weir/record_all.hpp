#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weir/limiter.hpp"

namespace weir {

/// Options of all functions below. A timeout of zero is the store's default. A braced list alone,
/// such as `{.timeout = 100ms}`, works with a span of claims and with two claims; for record_all(),
/// acquire_all() and fetch_all() also with three. With other numbers of claims, write
/// `weir::joint_options{.timeout = 100ms}`.
struct joint_options {
  std::chrono::microseconds timeout{0};  ///< as record_options::timeout
  /// acquire_all() only: how far ahead the caller accepts a reservation, as
  /// acquire_options::max_wait.
  std::chrono::microseconds max_wait = acquire_options{}.max_wait;
};

namespace detail {

/// What the claims of a call come to.
struct joint_call {
  std::shared_ptr<const limiter_spec> core;
  short_text subject;
  std::int64_t cost;
  std::vector<term> further = {};
};

/// Throws std::invalid_argument if there is no claim. All other faults of the claims are errors of
/// the call.
joint_call join(std::span<const claim> claims);

/// Whether a claim's cost is the actual cost of the call, or ignored because all is given back.
enum class settle_how : std::uint8_t { actual_costs, refund };

/// As join(), for settle_all() and refund_all().
joint_call join_settlement(std::span<const claim> claims, settle_how how);

/// The type of the token says whether it may be moved from.
template <class CompletionToken, class Request>
auto initiate_call(joint_call&& call, Request&& asked, joint_options options,
                   std::remove_reference_t<CompletionToken>& token) {
  return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
      check_initiation{std::move(call.core)}, token,
      joint_arguments_of<Request>{{std::move(call.subject), options.timeout, std::move(asked)},
                                  std::move(call.further)});
}

template <class Request, class CompletionToken>
auto initiate_joint(std::span<const claim> claims, joint_options options,
                    std::remove_reference_t<CompletionToken>& token) {
  joint_call call = join(claims);
  Request asked{.cost = call.cost};
  if constexpr (Request::kind == check_kind::acquire) asked.max_wait = options.max_wait;
  return initiate_call<CompletionToken>(std::move(call), std::move(asked), options, token);
}

template <class CompletionToken>
auto initiate_settlement(const decision& d, std::span<const claim> claims, settle_how how,
                         joint_options options, std::remove_reference_t<CompletionToken>& token) {
  joint_call call = join_settlement(claims, how);
  settle_request asked{call.cost, d};
  return initiate_call<CompletionToken>(std::move(call), std::move(asked), options, token);
}

template <class T>
inline constexpr bool is_claim = std::is_same_v<std::remove_cvref_t<T>, claim>;

template <class... Args>
constexpr std::size_t leading_claims() {
  std::size_t n = 0;
  bool going_on = true;
  ((going_on = going_on && is_claim<Args>, n += going_on ? 1 : 0), ...);
  return n;
}

/// Splits the arguments into claims, joint_options if present, and a token if present; calls
/// start<token's type>(claims, options, token).
template <class Start, class... Args>
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
      return std::is_same_v<std::remove_cvref_t<next>, joint_options>;
    }
  }();
  joint_options options;
  if constexpr (has_options) options = std::get<count>(all);

  constexpr std::size_t token_place = count + (has_options ? 1 : 0);
  static_assert(token_place + 1 >= sizeof...(Args), "claims, joint_options, a completion token");
  if constexpr (token_place == sizeof...(Args)) {
    boost::asio::deferred_t token;
    return start.template operator()<boost::asio::deferred_t>(claims, options, token);
  } else {
    using token = std::tuple_element_t<token_place, std::tuple<Args...>>;
    return start.template operator()<token>(claims, options, std::get<token_place>(all));
  }
}

template <class Request, class... Args>
auto initiate_variadic(Args&&... args) {
  return take_apart(
      []<class Token>(std::span<const claim> claims, joint_options options, auto& token) {
        return initiate_joint<Request, Token>(claims, options, token);
      },
      std::forward<Args>(args)...);
}

template <class... Args>
auto initiate_variadic_settlement(const decision& d, settle_how how, Args&&... args) {
  return take_apart(
      [&d, how]<class Token>(std::span<const claim> claims, joint_options options, auto& token) {
        return initiate_settlement<Token>(d, claims, how, options, token);
      },
      std::forward<Args>(args)...);
}

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
/// The arguments are claims, then optionally joint_options, then optionally a completion token.
/// Each claim is `limiter.on(subject, cost)`: subject 1 to 65,536 bytes, cost 1 to max_units. The
/// limiters must be of one store and one `group` (or the same resource, subject and
/// subject_buckets), so that a Redis Cluster can route their keys. They have at most 16 tiers
/// together, no key occurs twice, and none has count_refused. `timeout`: as
/// record_options::timeout.
///
/// **Handler signature.** `void(error_code, decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_cost`, `cost_exceeds_limit`, `joint_not_supported` (a
/// Memcached store), `cannot_combine` (the limiters do not meet the conditions above),
/// operation_aborted, and the store errors of `limiter`.
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
template <class... Args>
auto record_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic<detail::record_request>(first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(const claim& a, const claim& b, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::record_request, CompletionToken>(std::array{a, b}, options,
                                                                         token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(const claim& a, const claim& b, const claim& c, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::record_request, CompletionToken>(std::array{a, b, c},
                                                                         options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto record_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<detail::record_request, CompletionToken>(claims, {}, token);
}

/// The same for a number of claims known at run time. Throws std::invalid_argument if `claims` is
/// empty, as this overload of each function below does.
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(std::span<const claim> claims, joint_options options = {},
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::record_request, CompletionToken>(claims, options, token);
}

/// Makes a reservation in all limiters, at one time that fits all of them, and completes when that
/// time has come. With a single claim this is limiter::acquire() with a priority of 0; the text
/// below is about several claims.
///
/// If that time lies beyond joint_options::max_wait, the call is refused at once and nothing is
/// reserved. The waiters have no priorities. While the store is away, the call to the store is not
/// repeated. If on_failure::fallback decides, nothing is reserved: the call is counted now or
/// refused, as by record_all().
///
/// If a cool-down begins that covers the reservation, or that of an earlier caller, and this
/// process knows of it, the store is asked for another one. If that call fails, this one ends with
/// its error, or as limiter_options::on_failure says.
///
/// The arguments are those of record_all(). `max_wait`: microseconds, 0 to 31 days. `timeout`: the
/// deadline of the call to the store, not of the wait.
///
/// **Handler signature.** `void(error_code, decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_cost`, `cost_exceeds_limit`, `cannot_combine`,
/// `joint_not_supported`, `cannot_wait` (a limiter has count_refused), `overloaded` (also if
/// 100,000 callers of this store wait already; the reservation is given back), operation_aborted,
/// and the store errors of `limiter`.
///
/// **Cancellation.** As for limiter::acquire(): the reservation is given back. `total` cancels
/// nothing once the reservation is made.
///
/// **Thread safety** is as for `limiter`. **Object lifetime** is as for record_all().
template <class... Args>
auto acquire_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic<detail::acquire_request>(first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(const claim& a, const claim& b, joint_options options,
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::acquire_request, CompletionToken>(std::array{a, b}, options,
                                                                          token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(const claim& a, const claim& b, const claim& c, joint_options options,
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::acquire_request, CompletionToken>(std::array{a, b, c},
                                                                          options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto acquire_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<detail::acquire_request, CompletionToken>(claims, {}, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(std::span<const claim> claims, joint_options options = {},
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::acquire_request, CompletionToken>(claims, options, token);
}

/// Answers what record_all() would answer now, and counts nothing; see limiter::fetch().
///
/// The arguments are those of record_all().
///
/// **Handler signature.** `void(error_code, decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_cost`, `cost_exceeds_limit`, `cannot_combine`,
/// `joint_not_supported`, operation_aborted, and the store errors of `limiter`. Failure policies
/// apply as for record_all().
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
template <class... Args>
auto fetch_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic<detail::fetch_request>(first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(const claim& a, const claim& b, joint_options options,
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::fetch_request, CompletionToken>(std::array{a, b}, options,
                                                                        token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(const claim& a, const claim& b, const claim& c, joint_options options,
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::fetch_request, CompletionToken>(std::array{a, b, c},
                                                                        options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto fetch_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<detail::fetch_request, CompletionToken>(claims, {}, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(std::span<const claim> claims, joint_options options = {},
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<detail::fetch_request, CompletionToken>(claims, options, token);
}

/// Corrects a decision of several limiters to what the call really cost, once: for each limiter its
/// own actual cost, such as the requests and the tokens of one call.
///
/// Each limiter gives back what it took in excess, or charges what it took too little, as
/// limiter::settle() does: all limiters in one atomic step and one round trip. With a single claim
/// this is limiter::settle(), and each of the two settles the decisions of the other.
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
/// `d`: a decision of record_all() or acquire_all(). `claims`: the same limiters (or equal ones in
/// another process) and subjects in the same order, four at most; each cost is the actual cost, 0
/// to max_units. Then optionally joint_options and a completion token.
///
/// **Handler signature.** `void(error_code, decision)`.
///
/// **Errors.** `invalid_subject`, `invalid_cost`, `cannot_settle` (other limiters, subjects or
/// order, or more than four limiters), `joint_not_supported` (a Memcached store), `cannot_combine`
/// (if the decision took nothing, the limiters must meet the conditions of record_all()),
/// `settlements_full` (memory and Memcached stores), operation_aborted, and the store errors of
/// `limiter`. Failure policies do not apply.
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
///
///     decision d = co_await record_all(requests.on(account), tokens.on(account, 4000));
///     ...
///     co_await settle_all(d, requests.on(account), tokens.on(account, used));
template <class... Args>
auto settle_all(const decision& d, const claim& first, Args&&... more) {
  return detail::initiate_variadic_settlement(d, detail::settle_how::actual_costs, first,
                                              std::forward<Args>(more)...);
}
template <class CompletionToken = boost::asio::deferred_t>
auto settle_all(const decision& d, std::span<const claim> claims, joint_options options = {},
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_settlement<CompletionToken>(d, claims, detail::settle_how::actual_costs,
                                                      options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto settle_all(const decision& d, std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_settlement<CompletionToken>(d, claims, detail::settle_how::actual_costs,
                                                      {}, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto settle_all(const decision& d, const claim& a, const claim& b, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_settlement<CompletionToken>(
      d, std::array{a, b}, detail::settle_how::actual_costs, options, token);
}

/// Gives back what a decision of several limiters took, in each of them: settle_all() with actual
/// costs of zero. The costs of the claims are ignored: `tokens.on(account)` is enough.
///
/// Answer, arguments and repeated calls are as for settle_all().
///
/// **Handler signature.** `void(error_code, decision)`.
///
/// **Errors.** `invalid_subject`, `cannot_settle`, `cannot_combine`, `joint_not_supported`,
/// `settlements_full` (memory and Memcached stores), operation_aborted, and the store errors of
/// `limiter`, as for settle_all(). Failure policies do not apply.
///
/// **Cancellation** and **thread safety** are as for `limiter`. **Object lifetime** is as for
/// record_all().
template <class... Args>
auto refund_all(const decision& d, const claim& first, Args&&... more) {
  return detail::initiate_variadic_settlement(d, detail::settle_how::refund, first,
                                              std::forward<Args>(more)...);
}
template <class CompletionToken = boost::asio::deferred_t>
auto refund_all(const decision& d, std::span<const claim> claims, joint_options options = {},
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_settlement<CompletionToken>(d, claims, detail::settle_how::refund,
                                                      options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto refund_all(const decision& d, std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_settlement<CompletionToken>(d, claims, detail::settle_how::refund, {},
                                                      token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto refund_all(const decision& d, const claim& a, const claim& b, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_settlement<CompletionToken>(d, std::array{a, b},
                                                      detail::settle_how::refund, options, token);
}

static_assert(std::is_trivially_destructible_v<joint_options>);

}  // namespace weir
