#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/short_text.hpp"

namespace weir::detail {

// The resource, policy and store of one limiter; defined in src/check/limiter_spec.hpp.
struct limiter_spec;

enum class check_kind : std::uint8_t {
  record,
  fetch,
  reset,
  cool_down,
  acquire,
  give_back,
  settle,
  lower,
  enter,
  renew,
  leave,
  watch,
};

/// Whether the caller's handler gets a decision beside the error code.
constexpr bool has_decision(check_kind kind) noexcept {
  return kind != check_kind::reset && kind != check_kind::watch;
}

// What a caller, or the library itself, asks: one type for each kind. Costs are units. A check with
// such a request is a check_of; see check.hpp.

/// Counts the cost if it fits.
struct record_request {
  static constexpr check_kind kind = check_kind::record;
  std::int64_t cost = 1;
};

/// Answers as a record would, and changes nothing. At a gate, the cost is 1.
struct fetch_request {
  static constexpr check_kind kind = check_kind::fetch;
  std::int64_t cost = 1;
};

/// Makes a reservation.
struct acquire_request {
  static constexpr check_kind kind = check_kind::acquire;
  std::int64_t cost = 1;
  std::chrono::microseconds max_wait{0};  // the longest time until the reservation
  std::int32_t priority = 0;              // the larger goes first
  // When the call came, in ns of the steady clock; no two calls of a limiter have the same. Zero if
  // the check did not go to the store itself (waiting::acquire_queue).
  std::uint64_t arrival = 0;

  // The store's answer, beside the decision:
  std::chrono::microseconds cool_down_left{0};  // at decision::decided_at
  // For a reservation that lies ahead: the states that the store found before it, in the form of a
  // script's reply.
  std::vector<std::int64_t> found = {};
};

/// Gives back a reservation whose caller has left.
struct give_back_request {
  static constexpr check_kind kind = check_kind::give_back;
  std::int64_t cost = 1;
  decision reservation = {};
  std::vector<std::int64_t> found = {};  // acquire_request::found of the reservation
  std::uint64_t id = 0;                  // the store does it once for each id
};

/// Corrects a decision to what the call really cost.
struct settle_request {
  static constexpr check_kind kind = check_kind::settle;
  std::int64_t actual_cost = 0;
  decision about = {};
  // The id under which the store does it once; start_check() sets it. 0: the store only reads.
  std::uint64_t id = 0;
};

/// Forgets the subject.
struct reset_request {
  static constexpr check_kind kind = check_kind::reset;
};

/// Starts a cool-down of the subject.
struct cool_down_request {
  static constexpr check_kind kind = check_kind::cool_down;
  std::chrono::microseconds duration{0};
  bool was_clamped = false;  // start_check() cut the duration to max_cool_down
};

/// Lowers `remaining` to the vendor's.
struct lower_request {
  static constexpr check_kind kind = check_kind::lower;
  std::int64_t remaining = 0;
  std::int64_t vendor_limit = 0;  // the limit that the vendor names; 0: none
};

/// Takes a lease.
struct enter_request {
  static constexpr check_kind kind = check_kind::enter;
  std::int64_t lease = 0;
};

/// Prolongs a lease.
struct renew_request {
  static constexpr check_kind kind = check_kind::renew;
  std::int64_t lease = 0;
};

/// Gives a lease back.
struct leave_request {
  static constexpr check_kind kind = check_kind::leave;
  std::int64_t lease = 0;
};

/// Completes when a lease is lost. No store sees it.
struct watch_request {
  static constexpr check_kind kind = check_kind::watch;
  std::int64_t lease = 0;
};

/// A further limiter of a joint check, beside the check's own.
struct term {
  std::shared_ptr<const limiter_spec> limiter;
  short_text subject;
  std::int64_t cost = 1;  // of a settlement: the actual cost
};

}  // namespace weir::detail
