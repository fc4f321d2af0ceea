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

/// Options of all functions below. A zero timeout means the store's default.
struct joint_options {
  std::chrono::microseconds timeout{0};  ///< as record_options::timeout
  /// acquire_all only: for the turn, as acquire_options::max_wait.
  std::chrono::microseconds max_wait = acquire_options{}.max_wait;
};

namespace detail {

struct joint_call {
  std::shared_ptr<const limiter_spec> core;
  boost::asio::any_io_executor executor;
  request asked;
};

/// Throws std::invalid_argument if there is no claim at all; what else is wrong with them, the
/// call's result says.
joint_call join(std::span<const claim> claims, check_kind kind, joint_options options);

/// Whether the claims' costs are what the call really cost, or nothing has to be paid.
enum class settle_how : std::uint8_t { actual_costs, refund };

/// The same for settle_all and refund_all.
joint_call join_settlement(std::span<const claim> claims, settle_how how, joint_options options);

/// The token's own category says whether it may be moved from.
template <class CompletionToken>
auto initiate_joint(std::span<const claim> claims, check_kind kind, joint_options options,
                    std::remove_reference_t<CompletionToken>& token) {
  joint_call call = join(claims, kind, options);
  return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
      check_initiation<true>{std::move(call.core), std::move(call.executor)}, token,
      std::move(call.asked));
}

template <class CompletionToken>
auto initiate_settlement(const decision& d, std::span<const claim> claims, settle_how how,
                         joint_options options, std::remove_reference_t<CompletionToken>& token) {
  joint_call call = join_settlement(claims, how, options);
  return boost::asio::async_initiate<CompletionToken, void(error_code, decision)>(
      check_initiation<true>{std::move(call.core), std::move(call.executor)}, token,
      std::move(call.asked), d);
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

/// Of claims, then perhaps options, then perhaps a token: start<token's type>(claims, options,
/// token).
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

template <class... Args>
auto initiate_variadic(check_kind kind, Args&&... args) {
  return take_apart(
      [kind]<class Token>(std::span<const claim> claims, joint_options options, auto& token) {
        return initiate_joint<Token>(claims, kind, options, token);
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

/// Counts for several limiters at once, if all of them allow it, and else for none: one atomic
/// step, one round trip.
///
///     weir::limiter partner{store, "partner", total, {.group = "partner"}};
///     weir::limiter consumers{store, "consumers", each, {.group = "partner"}};
///     weir::decision d = co_await weir::record_all(partner.on("all"), consumers.on(account));
///     if (!d.allowed) log(d.tier == 0 ? "partner exhausted" : "account exhausted");
///
/// A refusal is that of the limiter which refuses longest, and `tier` is its place among the
/// arguments (a limiter with tiers of its own takes as many places); with a single claim it is as
/// for that limiter's record. When all allow, `limit`, `used` and `remaining` are of the one with
/// the least remaining, and `delay` is the longest.
///
/// After the claims may come joint_options and a completion token. Everything else is as said for
/// `limiter`.
///
/// The limiters must be of one store and one `group` (or the same resource and subject), so that a
/// Redis Cluster can route their keys; may not touch one key twice nor have count_refused; and have
/// 16 tiers at the most. Otherwise the error is error::cannot_combine, and nothing was sent.
///
/// If the store cannot say, the strictest of the limiters' failure policies applies: raise, closed,
/// fallback, open.
template <class... Args>
auto record_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic(detail::check_kind::record, first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(const claim& a, const claim& b, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b}, detail::check_kind::record,
                                                 options, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(const claim& a, const claim& b, const claim& c, joint_options options,
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b, c}, detail::check_kind::record,
                                                 options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto record_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::record, {}, token);
}

/// The same for as many claims as there are at run time, at least one.
template <class CompletionToken = boost::asio::deferred_t>
auto record_all(std::span<const claim> claims, joint_options options = {},
                CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::record, options,
                                                 token);
}

/// Waits for the turn with all of them at once: see limiter::acquire and joint_options::max_wait.
/// There are no priorities here. 100,000 callers may sleep so at once, for each store; a caller
/// beyond that gets error::overloaded, and its turn goes back. While the store is away, the
/// question is not repeated: the call ends with its error. If on_failure::fallback decides, nothing
/// is booked: the call is counted now or refused, as by record_all.
template <class... Args>
auto acquire_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic(detail::check_kind::acquire, first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(const claim& a, const claim& b, joint_options options,
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b}, detail::check_kind::acquire,
                                                 options, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(const claim& a, const claim& b, const claim& c, joint_options options,
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b, c}, detail::check_kind::acquire,
                                                 options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto acquire_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::acquire, {}, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto acquire_all(std::span<const claim> claims, joint_options options = {},
                 CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::acquire, options,
                                                 token);
}

/// What record_all would answer, changing nothing; see limiter::fetch.
template <class... Args>
auto fetch_all(const claim& first, Args&&... more) {
  return detail::initiate_variadic(detail::check_kind::fetch, first, std::forward<Args>(more)...);
}
// A braced list of options has no type, so the function above cannot take it.
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(const claim& a, const claim& b, joint_options options,
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b}, detail::check_kind::fetch,
                                                 options, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(const claim& a, const claim& b, const claim& c, joint_options options,
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(std::array{a, b, c}, detail::check_kind::fetch,
                                                 options, token);
}
template <boost::asio::completion_token_for<void(error_code, decision)> CompletionToken>
auto fetch_all(std::span<const claim> claims, CompletionToken&& token) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::fetch, {}, token);
}
template <class CompletionToken = boost::asio::deferred_t>
auto fetch_all(std::span<const claim> claims, joint_options options = {},
               CompletionToken&& token = CompletionToken()) {
  return detail::initiate_joint<CompletionToken>(claims, detail::check_kind::fetch, options, token);
}

/// Charges what a call really cost, for a decision of several limiters, each with its own actual
/// cost: the requests and the tokens of one call.
///
///     decision d = co_await record_all(requests.on(account), tokens.on(account, 4000));
///     ...
///     co_await settle_all(d, requests.on(account), tokens.on(account, used));
///
/// The cost of each claim is the actual cost for that limiter, 0 to max_units. Each limiter gives
/// back what it took beyond that, or charges what it took too little, as limiter::settle() does:
/// all limiters in one atomic step, one round trip, once.
///
/// `d`: of record_all() or acquire_all(). `claims`: the same limiters (or ones like them in another
/// process) and subjects, in the same order; else error::cannot_settle. Four at the most: a
/// decision of more limiters cannot be settled. If the decision took nothing (refused, or made
/// without the store), the store is only asked how things stand. With a single claim this is
/// limiter::settle(), and either settles the decisions of the other.
///
/// The answer's `allowed` tells whether this was the first time that the decision was settled; if
/// not, nothing has changed. `limit`, `used` and `remaining` are of the limiter with the least
/// remaining now, and `reset_after` is the longest. After an error it may be tried again: it has
/// been done in all limiters or in none. If the key of one limiter holds something else
/// (error::wrong_type), nothing has changed in the others. docs/settling.md names two exceptions: a
/// foreign entry in the middle of a log, and a command that the server's ACL forbids.
///
/// After the claims may come joint_options and a completion token. Everything else is as said for
/// limiter::settle() and limiter::refund().
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
/// costs of zero. The costs of the claims are not looked at: `tokens.on(account)` is enough.
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
