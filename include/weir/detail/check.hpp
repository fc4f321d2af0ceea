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

namespace weir::waiting {
struct waiter;  // a caller in a queue; defined in src/waiting/waiter.hpp
}

namespace weir::detail {

// The resource, policy and store of one limiter; defined in src/check/limiter_spec.hpp.
struct limiter_spec;

/// The longest subject. A check with a longer one fails, and does not even copy all of it.
inline constexpr std::size_t max_subject_size = 65'536;

/// Copies the caller's subject. It keeps one byte more than max_subject_size, so that start_check()
/// sees that the subject is too long.
inline short_text copy_of_subject(std::string_view subject) {
  return short_text(subject.substr(0, max_subject_size + 1));
}

enum class check_kind : std::uint8_t {
  record,  // at a gate: enter
  fetch,
  reset,
  cool_down,
  acquire,
  give_back,
  settle,  // until the answer comes, `answer` holds the decision to be settled
  // lowers what is left to `cost`, as a vendor says; `answer.limit` is the limit that it names
  lower,
  renew,  // prolongs a lease
  leave,  // gives a lease back
  watch,  // completes when a lease is lost; no store sees it
};

/// The progress of a check. It only moves forward, except that an unsent check may go back to
/// waiting.
enum class check_stage : std::uint8_t {
  idle,     ///< no store has it yet
  waiting,  ///< in the store's line; nothing sent
  staged,   ///< encoded, in the write that is under way
  written,  ///< sent; its reply is due
  done,     ///< answered, failed or cancelled; about to be delivered
};

/// How the caller gets the result.
enum class delivery : std::uint8_t {
  dispatch,  ///< at once, if this is the caller's executor
  post,      ///< never inside the calling function
  discard,   ///< not at all: the execution context is shutting down
};

/// A further limiter of a joint check, beside the check's own.
struct term {
  std::shared_ptr<const limiter_spec> limiter;
  short_text subject;
  std::int64_t cost = 1;  // as check::cost
};

/// The arguments of one call.
struct request {
  check_kind kind = check_kind::record;
  short_text subject;
  std::int64_t cost = 1;
  std::chrono::microseconds timeout{0};
  std::vector<term> further = {};
  std::chrono::microseconds max_wait{0};
  std::int32_t priority = 0;  // acquire only
};

/// The intrusive, type-erased part of an asynchronous operation: one caller that waits for one
/// answer. Stores link it into their lists and fill in the answer; they never see the handler.
///
/// A store owns the check from start_check() until it calls finish(), which it does exactly once.
class check {
 public:
  using hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using steady_time = std::chrono::steady_clock::time_point;

  check(const check&) = delete;
  check& operator=(const check&) = delete;

  /// Hands the result to the caller and destroys this object.
  virtual void finish(delivery how) = 0;

  // The arguments of the call.
  std::shared_ptr<const limiter_spec> limiter;
  // Units. For a cool-down: its length in microseconds. At a gate: the lease's number. For a
  // settlement: the actual cost and, once started, the units to give back; below zero they are
  // charged.
  std::int64_t cost = 1;
  std::chrono::microseconds timeout{0};  // 0: the store's default
  check_kind kind = check_kind::record;
  bool was_clamped = false;               // a cool-down was asked for beyond max_cool_down
  std::chrono::microseconds max_wait{0};  // acquire: the longest time until the reservation
  std::int32_t priority = 0;              // acquire: the larger goes first
  // A settlement or give_back: the id under which the store does it once. 0: none; a settlement
  // then only reads.
  std::uint64_t once = 0;

  // The store's bookkeeping.
  check_stage stage = check_stage::idle;
  bool unwanted = false;             // the caller is gone; its reservation is given back
  bool left_early = false;           // cancelled before `sleepers` had it; guarded by their mutex
  bool from_line = false;            // made by a queue, which waits itself
  waiting::waiter* place = nullptr;  // in a queue; guarded by its mutex
  std::uint8_t resends = 0;          // how often it was sent again because the script was missing
  std::uint32_t position = 0;        // its index among the checks of one script call
  steady_time deadline{};
  steady_time sent{};  // when it was last encoded; zero: never, or a memory store
  hook line;           // in the line, or among the checks of one key in a script call
  hook wheel;          // in the deadline wheel

  // The answer.
  error_code ec;
  decision answer;
  std::chrono::microseconds pause{0};  // acquire: the rest of a cool-down at answer.decided_at
  // acquire: for a reservation that lies ahead, the states that the store found before it, in the
  // form of a script's reply.
  std::vector<std::int64_t> found;

  short_text subject;
  std::vector<term> further;  // a joint check: all limiters count it, or none does

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

/// Validates the check and hands it to its limiter's queue (acquire) or store. The handler never
/// runs inside this call.
void start_check(check& c);

enum class cancel_scope : std::uint8_t {
  any,         ///< end the call, whether the check was sent or not
  only_unsent  ///< end it only while the check is unsent (Asio's `total`)
};

/// Finishes the check with operation_aborted, unless it is done already or the scope forbids it.
void cancel_check(check& c, cancel_scope scope);

}  // namespace weir::detail
