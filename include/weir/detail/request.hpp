#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/short_text.hpp"
#include "weir/event.hpp"

namespace weir::detail {

// The resource, policy and store of one limiter; defined in src/check/limiter_spec.hpp.
struct limiter_spec;

enum class check_kind : std::uint8_t { record, fetch, acquire, settle, lease, cool_down, reset };

/// What follows from what a check asks. The code reads these in place of the kind, but where the
/// work itself differs.
struct request_traits {
  bool merges : 1 = false;         ///< a call may have it as one of many: it has no id of its own
  bool decides_now : 1 = false;    ///< the store keeps its executor busy until the answer comes
  bool looks_only : 1 = false;     ///< changes no state
  bool waits : 1 = false;          ///< may wait in this process, for its turn
  bool signs : 1 = false;          ///< its decision gets a receipt, if it took units
  bool may_fail_over : 1 = false;  ///< a failure policy may answer it
  bool frees_units : 1 = false;    ///< its subjects may have more units afterwards
  bool gives_back : 1 = false;     ///< a closing store still accepts it
  bool is_urgent : 1 = false;      ///< goes first: a lease renewed too late is lost
  bool watches : 1 = false;        ///< no store sees it
};

namespace asks {

inline constexpr request_traits  // clang-format off
    record{.merges = true, .decides_now = true, .signs = true, .may_fail_over = true},
    fetch{.merges = true, .decides_now = true, .looks_only = true, .may_fail_over = true},
    acquire{.merges = true, .waits = true, .signs = true, .may_fail_over = true},
    settle{.frees_units = true},
    give_back{.frees_units = true, .gives_back = true},
    lower{},
    enter{.signs = true},
    renew{.is_urgent = true},
    leave{.gives_back = true, .is_urgent = true},
    watch{.watches = true},
    cool_down{.merges = true},
    reset{.merges = true, .frees_units = true};
// clang-format on

}  // namespace asks

// What a caller, or the library itself, asks beside the units: one type for each kind. A check with
// such a request is a check_of; see check.hpp.

/// Counts the units if they fit.
struct record_request {
  static constexpr check_kind kind = check_kind::record;
  static constexpr request_traits traits() noexcept { return asks::record; }
};

/// Answers as a record would, and changes nothing. At a gate, the units are 1.
struct fetch_request {
  static constexpr check_kind kind = check_kind::fetch;
  static constexpr request_traits traits() noexcept { return asks::fetch; }
};

/// Makes a reservation of the units.
struct acquire_request {
  static constexpr check_kind kind = check_kind::acquire;
  static constexpr request_traits traits() noexcept { return asks::acquire; }

  std::chrono::microseconds max_wait{0};  // the longest time until the reservation
  std::int32_t priority = 0;              // the larger goes first
  // How many cool-downs its line had noted, and forgotten, when the check was started.
  std::uint32_t cool_downs = 0, forgotten = 0;
  // When the call came, in ns of the steady clock; no two calls of a room have the same.
  std::uint64_t arrival = 0;

  // The store's answer, beside the decision:
  std::chrono::microseconds cool_down_left{0};  // at decision::decided_at
  // For a reservation that lies ahead: the states that the store found before it, in the form of a
  // script's reply.
  std::vector<std::int64_t> found = {};
};

/// Why units are settled.
enum class settle_cause : std::uint8_t {
  actual_cost,  ///< the caller says what the call really cost
  give_back,    ///< a reservation, or a part of a record's units, goes back
  vendor,       ///< the vendor says what remains
};

/// Corrects the units of a decision, or, for a vendor, lowers what remains.
struct settle_request {
  static constexpr check_kind kind = check_kind::settle;
  constexpr request_traits traits() const noexcept {
    return cause == settle_cause::actual_cost ? asks::settle
           : cause == settle_cause::give_back ? asks::give_back
                                              : asks::lower;
  }

  settle_cause cause = settle_cause::actual_cost;
  decision about = {};
  std::vector<std::int64_t> found = {};  // acquire_request::found of a reservation
  // The id under which the store does it once. For an actual cost, start_check() sets it; 0: the
  // store only reads.
  std::uint64_t id = 0;
  std::int64_t vendor_limit = 0;  // the limit that the vendor names; 0: none
};

enum class lease_act : std::uint8_t { enter, renew, leave, watch };

/// Takes, prolongs or gives back the lease whose number stands in the units. A watch completes when
/// the lease is lost.
struct lease_request {
  static constexpr check_kind kind = check_kind::lease;
  constexpr request_traits traits() const noexcept {
    return act == lease_act::enter   ? asks::enter
           : act == lease_act::renew ? asks::renew
           : act == lease_act::leave ? asks::leave
                                     : asks::watch;
  }

  lease_act act = lease_act::enter;
};

/// Starts a cool-down of the subject, for as many microseconds as it has units. If these are a
/// guess, the store may double them; zero then forgets the guess before.
struct cool_down_request {
  static constexpr check_kind kind = check_kind::cool_down;
  static constexpr request_traits traits() noexcept { return asks::cool_down; }

  cool_down_origin origin = cool_down_origin::call;
  std::int64_t longest_guess = 0;  // 0: no guess
  bool was_clamped = false;        // start_check() cut the duration to max_cool_down
};

/// Forgets the subject.
struct reset_request {
  static constexpr check_kind kind = check_kind::reset;
  static constexpr request_traits traits() noexcept { return asks::reset; }
};

/// A further limiter of a joint check, beside the check's own.
struct term {
  std::shared_ptr<const limiter_spec> limiter;
  short_text subject;
  std::int64_t units = 1;  // as check::units
};

/// All of them, and what they took: the store fills that in, or the caller of a settlement.
struct further_limiters {
  std::vector<term> terms = {};
  further_receipt taken = {};
};

}  // namespace weir::detail
