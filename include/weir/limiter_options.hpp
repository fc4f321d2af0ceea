#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "weir/decision.hpp"
#include "weir/duration.hpp"
#include "weir/event.hpp"
#include "weir/feedback.hpp"

namespace weir {

/// What record(), fetch(), acquire() and their _all forms answer when the store fails. Mistakes in
/// the call, cancellation, error::overloaded, error::store_contention and error::store_closed stay
/// errors.
enum class on_failure : std::uint8_t {
  /// the call ends with the error
  raise,
  /// the request is allowed
  open,
  /// the request is refused, with a retry_after of one second
  closed,
  /// this process decides by the policy, with its own share of the limit
  fallback,
};

/// Which of a vendor's counts is the same as a limiter's.
enum class vendor_count : std::uint8_t {
  none,
  /// vendor_feedback::requests: the limiter's cost is the number of requests
  requests,
  tokens,  ///< vendor_feedback::tokens
};

/// Which caller gets error::overloaded when max_waiting waiters of a subject wait already and one
/// more has to. Nothing is counted for a new call that is turned away. The reservation of a waiter
/// that is dropped is given back as far as possible (docs/waiting.md).
enum class on_overflow : std::uint8_t {
  refuse_new,            ///< the new call; calls that ask the store count as waiters
  drop_lowest_priority,  ///< the last waiter in rank; that may be the new call
};

struct limiter_options {
  weir::on_failure on_failure = weir::on_failure::raise;

  /// on_failure::fallback: how many processes share the limit, at least 1. Each process counts
  /// limit / process_count (also of capacity, burst and rate), and at least one unit. There is no
  /// default: with 0, a limiter with on_failure::fallback throws `invalid_policy`.
  std::int64_t process_count = 0;

  /// on_failure::fallback: how many subjects a process remembers, at least 1. It refuses further
  /// subjects until some no longer matter. Checked only with on_failure::fallback.
  std::size_t max_fallback_subjects = 100'000;

  /// Limiters of one group can be asked together (record_all): their keys lie in one slot of a
  /// Redis Cluster and in one shard of a memory store. At most 1024 bytes. If empty, each subject
  /// of this limiter has a slot of its own, or see subject_buckets. In a Memcached store, calls of
  /// several limiters get error::joint_not_supported. A view: the text has to live until the
  /// limiter's constructor has copied it.
  std::string_view group = {};

  /// How many hash tags the subjects share, 1 to 16,384; 0: each subject has a hash tag of its own.
  /// In a Redis Cluster, only checks of one hash tag can share a script call, so few tags make
  /// checks cheaper where many of them wait in one process (docs/scaling.md). Use the same value in
  /// every process: the keys contain it, so a limiter with another value counts apart, and a change
  /// of the value forgets all counts. Must be 0 if there is a `group`. It changes the keys in any
  /// Redis store, and has no effect in other stores.
  std::size_t subject_buckets = 0;

  /// Enables cool_down() and on_response(). Each check then also reads the subject's cool-down in
  /// the same atomic step, from a second key in the store. Use the same value in every process: a
  /// limiter without it ignores cool-downs. Not allowed with count_refused.
  bool cool_downs = false;

  /// The longest cool-down that cool_down() and on_response() start: 1 ms to 31 days. A longer one
  /// is cut to this.
  duration max_cool_down = std::chrono::hours{1};

  /// The cool-down that on_response() starts when a vendor refuses a call and gives no time, or a
  /// time of zero. Above zero; max_cool_down bounds it, too. Checked only if `cool_downs` is set.
  duration default_cool_down = std::chrono::seconds{1};

  /// If the vendor refuses again without a time, no later after the end of such a cool-down than it
  /// lasted, the next one is twice as long, up to max_cool_down. A call that the vendor serves ends
  /// the doubling: for that, on_response() needs all responses, not only the refusals.
  bool default_cool_down_doubles = true;

  /// How on_response() reads the vendor's headers.
  feedback_options response_parsing = {};

  /// on_response() lowers `remaining` to this count of the vendor, for an allowance that other
  /// users share. This costs one call to the store for each response that names the count. Needs
  /// `cool_downs`. Not for a vendor that limits input and output tokens apart: `tokens` is then the
  /// one with the least left.
  vendor_count sync_remaining_with = vendor_count::none;

  /// The deny cache: how many refused subjects this process remembers, rounded up to 8 times a
  /// power of two; 0 for none, at most 10^7. A record() that was refused before is refused again
  /// without a call to the store, until its retry_after or deny_cache_duration is over; `source` is
  /// then deny_cache, and `used` and `remaining` are those of the first refusal. A refund(),
  /// settle() or reset() ends this early only if it goes through this limiter. A subject for which
  /// the table has no place is not remembered, so choose twice the number of subjects that are
  /// refused at one time. Not allowed with count_refused. See docs/local_answers.md.
  std::size_t deny_cache_subjects = 0;
  /// How long a refusal is remembered at most: 1 ms to 1 h.
  duration deny_cache_duration = std::chrono::seconds{1};

  /// Local units: the most units of one subject that this process takes from the store beforehand;
  /// 0 for none, at most the policy's limit. A record() for which there are local units is answered
  /// without a call to the store; `source` is then local_units, and the decision has no receipt. p
  /// processes can hold up to p * local_units units while the store refuses other callers, and a
  /// bucket can let that many units more pass than its burst and rate allow. For one fixed_window,
  /// token_bucket or gcra, without count_refused and cool_downs. See docs/local_answers.md.
  std::int64_t local_units = 0;
  /// How many subjects have local units at once: 1 to 10^6. Checks of further subjects go to the
  /// store.
  std::size_t local_units_subjects = 10'000;

  /// How many waiters of one subject may wait in acquire() at once, through this limiter and its
  /// copies in this process; at least 1. The first limiter of an acquire_all() bounds, in the same
  /// way, the callers with the same claims and costs.
  std::size_t max_waiting = 10'000;

  /// What acquire() does beyond max_waiting.
  weir::on_overflow overflow = weir::on_overflow::refuse_new;

  /// The waiting time in which a waiter's priority rises by one, evenly. Zero: it never rises.
  duration priority_aging = std::chrono::seconds{1};

  /// How many of the subjects that are refused most limiter::stats() names; 0 for none, at most
  /// 10,000. Each takes up to 400 bytes. A subject with more than 1 / most_refused of all refusals
  /// is always among them.
  std::size_t most_refused = 0;

  /// Gets this limiter's events; if empty, the store's does: see event.hpp.
  event_handler on_event = {};
};

/// Options of one record(). A timeout of zero is the store's default, here and below: do not pass
/// the time that a caller has left, if that can be zero.
struct record_options {
  std::int64_t cost = 1;  ///< units, 1 to max_units
  /// The deadline from now: the time before sending and reconnecting are included. At most 24
  /// hours: a longer one is cut to that. A negative one is error::invalid_duration, here and below.
  /// A memory store answers at once.
  duration timeout = {};
};

/// Options of one acquire().
struct acquire_options {
  std::int64_t cost = 1;  ///< units, 1 to max_units
  /// How far ahead the waiter accepts a reservation, counted from the store's answer: 0 or more, at
  /// most 31 days; a longer one is cut to that. A later reservation is not made.
  duration max_wait = std::chrono::seconds{10};

  /// The deadline of one call to the store, with the time before sending; it does not bound the
  /// wait. If the store is away and certainly reserved nothing, the call is repeated until max_wait
  /// is over, unless on_failure decides (docs/waiting.md).
  duration timeout = {};

  /// A larger priority goes first among the waiters of one subject and cost that wait through this
  /// limiter and its copies. It has no effect once the queue is as long as max_wait: then bound the
  /// queue, with max_waiting and on_overflow::drop_lowest_priority (docs/waiting.md).
  std::int32_t priority = 0;
};

/// Options of one fetch().
struct fetch_options {
  std::int64_t cost = 1;
  duration timeout = {};
};

/// Options of one reset().
struct reset_options {
  duration timeout = {};
};

/// Options of one refund() or settle().
struct settle_options {
  duration timeout = {};
};

/// Options of one cool_down().
struct cool_down_options {
  duration timeout = {};
};

/// Options of one on_response().
struct response_options {
  duration timeout = {};
  /// With limiter_options::sync_remaining_with: the `remaining` of the decision that allowed the
  /// request, if this limiter alone made it and has one tier: of several, `remaining` may be
  /// another's. If the vendor's number is not below it, nothing is sent.
  std::int64_t known_remaining = unlimited;
  /// The caller knows that the vendor refused the call because of a limit, although the status does
  /// not say so. The response is then read as one with status 429.
  bool refused = false;
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
