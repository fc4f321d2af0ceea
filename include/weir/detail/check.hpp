#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/detail/request.hpp"
#include "weir/detail/short_text.hpp"
#include "weir/error.hpp"

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

/// How the caller gets the result.
enum class delivery : std::uint8_t {
  dispatch,  ///< at once, if the handler's executor is the store's: the calling function runs there
  post,      ///< never inside the calling function
  discard,   ///< not at all: the execution context is shutting down
};

/// The progress of a check. It only moves forward, except that a sent check that certainly did not
/// run goes back to waiting, and a check that is started again, to idle.
enum class check_stage : std::uint8_t {
  idle,     ///< no store has it yet
  waiting,  ///< in the store's line; nothing sent
  sent,     ///< in the write that is under way, or in an earlier one; its reply is due
  done,     ///< answered, failed or cancelled; about to be delivered
};

/// The base of waiting::waiter.
struct queued_waiter {};

/// What a waiting room notes of a call of acquire(); guarded by the mutex of the room.
struct room_note {
  queued_waiter* waiter = nullptr;  // null: the store has not answered yet
  enum : std::uint8_t {
    outside,   ///< not in the room, or about to be delivered
    held,      ///< the room is about to start the check
    at_store,  ///< an answer is due
    waits      ///< in its line
  } place = outside;
  enum : std::uint8_t { stays, leaves_if_unsent, leaves } wish = stays;  ///< of the caller
};

/// Where a Redis Cluster sends a check; guarded by the mutex of the cluster. Zero for other stores.
struct cluster_route {
  std::uint8_t redirects : 7 = 0;  // how often a node sent it on, counted up to:
  static constexpr std::uint8_t most_redirects_counted = 127;
  bool is_held : 1 = false;                       // it waits in the cluster, at no node
  std::uint16_t value = 0;                        // the slot of its keys, and these flags:
  static constexpr std::uint16_t asks = 0x4000;   // it is sent behind ASKING, alone
  static constexpr std::uint16_t alone = 0x8000;  // its script call has no other check
  std::uint16_t slot() const noexcept { return value & (asks - 1); }
  bool is_asking() const noexcept { return (value & asks) != 0; }
  bool is_alone() const noexcept { return (value & alone) != 0; }
  bool has_own_call() const noexcept { return value >= asks; }  // a node has asked for that
};

/// What the library notes of a check while it is in flight.
struct in_flight {
  using time = std::chrono::steady_clock::time_point;

  check_stage stage = check_stage::idle;
  bool is_detached = false;      // it has no caller, or that has left
  bool is_stand_in = false;      // takes the place of a check that has ended
  bool is_internal : 1 = false;  // made by local_units
  bool replaces : 1 = false;     // asks for a reservation in place of one that goes back
  bool was_put_off : 1 = false;  // its deadline, because the process stood still
  bool came_back : 1 = false;    // it was sent before and did not run
  bool left_stand_in : 1 = false;
  bool is_counted : 1 = false;  // for limiter::stats()
  std::uint8_t resends = 0;     // how often it was sent again: no script, or a swap lost
  // Its index among the checks of one key in a script call. With memcached: how many requests for
  // the value of its subject were sent before it came.
  std::uint32_t position = 0;
  // Its rank among the checks of a pipeline; in a Redis Cluster, among those of its slot.
  std::uint32_t order = 0;
  time deadline{};
  time sent{};  // when it was last encoded; before that, zero or when it came
  room_note room;
  mutable std::uint64_t subject_hash = 0;  // 0: not computed yet
};

/// The intrusive, type-erased part of an asynchronous operation: one caller that waits for one
/// answer. Stores link it into their lists and fill in the answer; they never see the handler. The
/// derived check_of has the request.
///
/// A store owns the check from start_check() until it calls finish(), which it does exactly once.
class WEIR_EXPORT check {
 public:
  using steady_time = std::chrono::steady_clock::time_point;
  using hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  check(const check&) = delete;
  check& operator=(const check&) = delete;

  /// Hands the result to the caller and destroys this object.
  virtual void finish(delivery how) = 0;

  /// The further limiters of a joint check: all limiters count it, or none does.
  std::span<const term> further() const noexcept {
    return further_ == nullptr ? std::span<const term>{} : std::span<const term>(further_->terms);
  }
  std::span<term> further() noexcept {
    return further_ == nullptr ? std::span<term>{} : std::span<term>(further_->terms);
  }
  /// What those took; null if there are none.
  further_receipt* further_taken() const noexcept {
    return further().empty() ? nullptr : &further_->taken;
  }

  /// Gives up the limiters, which may hold the last handle of the store.
  void release_limiters() noexcept { limiter.reset(); }

  const check_kind kind;
  const request_traits traits;
  bool at_store = false;  // the handler's executor is the store's

  in_flight flight;
  cluster_route route;
  hook line;   // in the line, or among the checks of one key in a script call
  hook wheel;  // in the deadline wheel

  // The address of the caller's arguments, which may be gone. If the caller is a coroutine that
  // awaits the call, they stand in its frame.
  const std::uintptr_t frame_hint;

 protected:
  further_limiters* further_ = nullptr;  // in the derived joint_check_of

 public:
  // Arguments that every call has.
  std::shared_ptr<const limiter_spec> limiter;
  std::chrono::microseconds timeout;  // 0: the store's default
  // The number for the kernels of its limiter: units, the lease's number at a gate, the
  // microseconds of a cool-down. Of a settlement: the actual cost, and once start_check() has
  // prepared it, the units to give back, or to charge if below zero.
  std::int64_t units;
  short_text subject;

  // The answer.
  error_code ec;
  union {
    decision answer;  // made by the constructor in fewer steps than by decision's own initialisers
  };

 protected:
  check(check_kind what, request_traits follows, std::shared_ptr<const limiter_spec>&& owner,
        short_text&& name, std::chrono::microseconds deadline_from_now,
        std::int64_t number) noexcept;
  ~check();
};

/// True for a check of record(), the common case.
inline bool is_record(const check& c) noexcept { return c.kind == check_kind::record; }

template <class Request>
class check_of;
template <class Request>
class joint_check_of;

/// The arguments of one call.
template <class Request>
struct arguments_of {
  using check_type = check_of<Request>;
  short_text subject = {};
  std::chrono::microseconds timeout{0};
  std::int64_t units = 1;
  [[no_unique_address]] Request asked = {};
};

/// A check with its request.
template <class Request>
class check_of : public check {
 public:
  using arguments = arguments_of<Request>;
  static constexpr bool has_decision = Request::kind != check_kind::reset;

  [[no_unique_address]] Request asked;

  const decision& result() const noexcept { return answer; }

 protected:
  check_of(std::shared_ptr<const limiter_spec>&& owner, arguments&& with) noexcept
      : check(Request::kind, with.asked.traits(), std::move(owner), std::move(with.subject),
              with.timeout, with.units),
        asked(std::move(with.asked)) {}
  ~check_of() = default;
};

/// A check whose caller only learns when the lease is lost: it gets no decision.
class watch_check : public check_of<lease_request> {
 public:
  static constexpr bool has_decision = false;

 protected:
  using check_of::check_of;
  ~watch_check() = default;
};

struct watch_arguments : arguments_of<lease_request> {
  using check_type = watch_check;
  explicit watch_arguments(std::int64_t lease) noexcept
      : arguments_of{.units = lease, .asked = {lease_act::watch}} {}
};

template <class Request>
struct joint_arguments_of {
  using check_type = joint_check_of<Request>;
  arguments_of<Request> first = {};
  further_limiters further = {};
};

/// A check that may have further limiters.
template <class Request>
class joint_check_of : public check_of<Request> {
 public:
  using arguments = joint_arguments_of<Request>;

  void release_limiters() noexcept {
    this->limiter.reset();
    limiters_.terms.clear();
  }
  joint_decision result() const noexcept { return {this->answer, limiters_.taken}; }

 protected:
  joint_check_of(std::shared_ptr<const limiter_spec>&& owner, arguments&& with) noexcept
      : check_of<Request>(std::move(owner), std::move(with.first)),
        limiters_(std::move(with.further)) {
    this->further_ = &limiters_;
  }
  ~joint_check_of() = default;

 private:
  further_limiters limiters_;
};

/// The request of a check of that kind.
template <class Request>
Request& as(check& c) noexcept {
  assert(c.kind == Request::kind);
  return static_cast<check_of<Request>&>(c).asked;
}
template <class Request>
const Request& as(const check& c) noexcept {
  assert(c.kind == Request::kind);
  return static_cast<const check_of<Request>&>(c).asked;
}

inline bool cools_down(const check& c) noexcept { return c.kind == check_kind::cool_down; }
inline bool resets(const check& c) noexcept { return c.kind == check_kind::reset; }
/// True for a check that gives units back, charges them, or lowers what remains.
inline bool settles(const check& c) noexcept { return c.kind == check_kind::settle; }
/// True for one that lowers what remains to what the vendor says.
inline bool lowers(const check& c) noexcept {
  return settles(c) && as<settle_request>(c).cause == settle_cause::vendor;
}

/// Counts a call that has ended, for limiter::stats(), unless that is done.
WEIR_EXPORT void note_end(const check& c) noexcept;

/// Validates the check and hands it to its limiter's waiting room (acquire) or store. The handler
/// never runs inside this call.
WEIR_EXPORT void start_check(check& c);

enum class cancel_scope : std::uint8_t {
  any,         ///< end the call, whether the check was sent or not
  only_unsent  ///< end it only while the check is unsent (Asio's `total`)
};

/// When the check was last encoded; zero: never, or by a memory store.
WEIR_EXPORT std::chrono::steady_clock::time_point sent_at(const check& c) noexcept;

/// Finishes the check with operation_aborted, unless it is done already or the scope forbids it.
WEIR_EXPORT void cancel_check(check& c, cancel_scope scope);

}  // namespace weir::detail
