#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/short_text.hpp"
#include "weir/error.hpp"

namespace weir::detail {

// Resource, policy and store of one limiter; defined in src/check/limiter_spec.hpp
struct limiter_spec;
struct waiter;  // who waits in a line; defined in src/waiting/waiter.hpp

/// Longer subjects are refused, and not even copied whole.
inline constexpr std::size_t max_subject_size = 65'536;

/// What a check keeps of a caller's text. One byte more than may be: that it is too long, the
/// call's result says.
inline short_text copy_of_subject(std::string_view subject) {
  return short_text(subject.substr(0, max_subject_size + 1));
}

enum class check_kind : std::uint8_t {
  record,  // of a gate: enter
  fetch,
  reset,
  cool_down,
  acquire,
  give_back,
  settle,  // a decision, which is in `answer` until there is one
  lower,   // what is left, to `cost`, as a vendor says; `answer.limit` is what it calls its limit
  renew,   // a lease
  leave,
  watch,  // a lease, until it is lost; no store sees it
};

/// How far a check has come. It only moves forward, except that what was never sent may go back to
/// waiting.
enum class check_stage : std::uint8_t {
  idle,     ///< not with a store yet
  waiting,  ///< in line; nothing sent
  staged,   ///< encoded, in the write now under way
  written,  ///< sent; its reply is due
  done,     ///< answered, failed or cancelled; about to be delivered
};

/// How the caller gets the result.
enum class delivery : std::uint8_t {
  dispatch,  ///< at once, if already on the caller's executor
  post,      ///< never inside the calling function
  discard,   ///< not at all: the execution context is shutting down
};

/// A further limiter that a joint check asks, beside its own.
struct term {
  std::shared_ptr<const limiter_spec> limiter;
  short_text subject;
  std::int64_t cost = 1;  // as check::cost
};

/// What a caller asks.
struct request {
  check_kind kind = check_kind::record;
  short_text subject;
  std::int64_t cost = 1;
  std::chrono::microseconds timeout{0};
  std::vector<term> further = {};
  std::chrono::microseconds max_wait{0};
  std::int32_t priority = 0;  // acquire
};

/// One caller waiting for one answer: the intrusive, type-erased part of an asynchronous operation.
/// Stores link it into their lines and fill in the result; they never see the handler.
///
/// A store owns the check from start_check() until it calls finish(), and may do so exactly once.
class check {
 public:
  using hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using steady_time = std::chrono::steady_clock::time_point;

  check(const check&) = delete;
  check& operator=(const check&) = delete;

  /// Hands the result to the caller and ends this object's life.
  virtual void finish(delivery how) = 0;

  // The question; fixed once started.
  std::shared_ptr<const limiter_spec> limiter;
  // Of a cool-down: the pause in microseconds; at a gate: the lease's number. Of a settlement: what
  // the call really cost, and once it has started, what is given back; below zero it is charged.
  std::int64_t cost = 1;
  std::chrono::microseconds timeout{0};  // 0: the store's default
  check_kind kind = check_kind::record;
  bool was_clamped = false;               // a cool-down: longer was asked for
  std::chrono::microseconds max_wait{0};  // acquire: from the decision until the turn, at the most
  std::int32_t priority = 0;              // acquire: larger goes first
  // A settlement or give_back: its id, under which it is done once. 0: none; a settlement only
  // looks.
  std::uint64_t once = 0;

  // The store's bookkeeping.
  check_stage stage = check_stage::idle;
  bool unwanted = false;       // nobody waits any more; what it booked is given back
  bool seated = false;         // in a waiting room, and under its mutex, as the next
  bool left_early = false;     // cancelled on its way there
  bool from_line = false;      // a line's own, which sleeps for it
  waiter* place = nullptr;     // in a line, and under its mutex
  std::uint8_t resends = 0;    // times it was sent again because the script was missing
  std::uint32_t position = 0;  // its place among the checks that travel together
  steady_time deadline{};
  steady_time sent{};  // when it was last encoded; zero: never, or the store has no wire
  hook line;           // in the waiting line, or among the checks of one key that travel together
  hook wheel;          // in the deadline wheel

  // The answer.
  error_code ec;
  decision answer;
  std::chrono::microseconds pause{0};  // acquire: what was left of a cool-down at answer.decided_at
  // acquire: of a turn that was booked ahead, the states that the booking found, as a script
  // replies with them.
  std::vector<std::int64_t> found;

  short_text subject;
  std::vector<term> further;  // of a joint check: all pass, or none counts

 protected:
  check(std::shared_ptr<const limiter_spec> owner, request&& asked) noexcept
      : limiter(std::move(owner)),
        cost(asked.cost),
        timeout(asked.timeout),
        kind(asked.kind),
        max_wait(asked.max_wait),
        priority(asked.priority),
        subject(std::move(asked.subject)),
        further(std::move(asked.further)) {}
  ~check() = default;
};

/// Validates and hands the check to its limiter's store. Never finishes it inside the call.
void start_check(check& c);

enum class cancel_scope : std::uint8_t {
  any,         ///< drop the waiter, whatever happened to the check
  only_unsent  ///< only if that leaves no trace (asio's `total` cancellation)
};

/// Finishes the check with operation_aborted, unless it is done already or the scope forbids it.
void cancel_check(check& c, cancel_scope scope);

}  // namespace weir::detail
