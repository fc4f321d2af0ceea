#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "weir/decision.hpp"
#include "weir/feedback.hpp"

namespace weir {

/// What becomes of a call when the store cannot say. Mistakes in the call itself, cancellation,
/// error::overloaded and error::store_closed are always errors.
enum class on_failure : std::uint8_t {
  raise,     ///< an error
  open,      ///< allowed
  closed,    ///< refused
  fallback,  ///< the policy itself, counted in this process, with this process's share of the limit
};

/// Which of a vendor's counts is what a limiter counts too.
enum class vendor_count : std::uint8_t {
  none,
  requests,  ///< vendor_feedback::requests: each check's cost is its requests
  tokens,    ///< vendor_feedback::tokens
};

/// What becomes of acquire() when as many wait for a subject as may. Whoever is turned away or
/// dropped gets error::overloaded. Nothing is counted for one turned away; what was booked for one
/// dropped is given back as far as that goes (docs/waiting.md).
enum class on_overflow : std::uint8_t {
  refuse_new,            ///< the new call is turned away
  drop_oldest,           ///< who came first goes, and the new call has the place
  drop_lowest_priority,  ///< who would go last goes; that may be the new call
  /// The new call stands outside, unsent, until there is room: in the order of priorities, within
  /// max_wait.
  block,
};

struct limiter_options {
  weir::on_failure on_failure = weir::on_failure::raise;

  /// on_failure::fallback: how many processes share the limit, at least 1. Each falls back to limit
  /// / process_count (capacity, burst and rate alike), but never below one unit.
  std::int64_t process_count = 1;

  /// on_failure::fallback: subjects remembered at the most; others are refused until some no longer
  /// matter.
  std::size_t max_fallback_subjects = 100'000;

  /// Limiters of one group can be asked together, see record_all(): all their keys lie in one slot
  /// of a Redis Cluster (and one shard of a memory store). At most 1024 bytes; empty: each subject
  /// of this limiter has a slot of its own.
  std::string_view group = {};

  /// Whether the limiter has cool_down() and on_response(). Each check then also reads, in the same
  /// atomic step, whether its subject is held back: a second key in the store. Use the same value
  /// in every process: a limiter without it ignores cool-downs. Not with count_refused.
  bool cool_downs = false;

  /// The longest pause that cool_down() and on_response() impose, whatever is asked for: 1 ms to 31
  /// days.
  std::chrono::microseconds max_cool_down = std::chrono::hours{1};

  /// What on_response() imposes when a vendor turns a call away and does not say for how long, or
  /// says zero. Above zero; max_cool_down bounds it too. Checked only if `cool_downs` is set.
  std::chrono::microseconds default_cool_down = std::chrono::seconds{1};

  /// How on_response() reads the vendor's headers.
  feedback_options response_parsing = {.retry_after_decides = true};

  /// Whether on_response() also lowers what remains here to what the vendor says remains there, as
  /// when others use up the same allowance. It costs a call to the store for each response that
  /// says so.
  vendor_count sync_remaining_with = vendor_count::none;

  /// How many may wait in acquire() at once, for each subject, through this limiter and its copies
  /// in this process; at least 1. Callers of acquire_all() do not count.
  std::size_t max_waiting = 10'000;

  /// What becomes of those beyond.
  weir::on_overflow overflow = weir::on_overflow::refuse_new;

  /// A priority rises by one for each of these that its caller has waited, evenly; zero: never.
  std::chrono::microseconds priority_aging = std::chrono::seconds{1};
};

/// Options of one record. A zero timeout means the store's default, here and below.
struct record_options {
  std::int64_t cost = 1;  ///< units, 1 to max_units
  /// The deadline from now on, queueing included. At most 24 hours: what is longer is cut to that.
  /// A negative one ends now. A memory store answers at once, and looks at none.
  std::chrono::microseconds timeout{0};
};

/// Options of one acquire. A zero timeout means the store's default.
struct acquire_options {
  std::int64_t cost = 1;  ///< units, 1 to max_units
  /// For the turn, from the store's answer on: 0 to 31 days, and what lies outside is read as the
  /// nearer of these. A turn that lies later is not booked.
  std::chrono::microseconds max_wait = std::chrono::seconds{10};

  /// For one question to the store, queueing included; not for the wait. If it ends with an error
  /// that says the store is away and nothing was booked, the question is asked again while max_wait
  /// lasts, unless on_failure decides (docs/waiting.md).
  std::chrono::microseconds timeout{0};

  /// Larger goes first, among those who wait through the same limiter in this process; see
  /// limiter::acquire().
  std::int32_t priority = 0;
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

/// Options of one refund or settle.
struct settle_options {
  std::chrono::microseconds timeout{0};
};

/// Options of one cool_down.
struct cool_down_options {
  std::chrono::microseconds timeout{0};
};

/// Options of one on_response.
struct response_options {
  std::chrono::microseconds timeout{0};
  /// With limiter_options::sync_remaining_with: what the decision on this call said remains. If the
  /// vendor says no less, nothing is sent.
  std::int64_t known_remaining = unlimited;
};

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<record_options> &&
              std::is_trivially_destructible_v<acquire_options> &&
              std::is_trivially_destructible_v<fetch_options> &&
              std::is_trivially_destructible_v<reset_options> &&
              std::is_trivially_destructible_v<settle_options> &&
              std::is_trivially_destructible_v<cool_down_options> &&
              std::is_trivially_destructible_v<response_options>);

}  // namespace weir
