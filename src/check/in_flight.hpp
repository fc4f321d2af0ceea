#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/parent_from_member.hpp>
#include <chrono>
#include <cstdint>
#include <new>

#include "base/hash.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// The progress of a check. It only moves forward, except that a sent check that certainly did not
/// run goes back to waiting, and a give-back that is tried again, to idle.
enum class check_stage : std::uint8_t {
  idle,     ///< no store has it yet
  waiting,  ///< in the store's line; nothing sent
  sent,     ///< in the write that is under way, or in an earlier one; its reply is due
  done,     ///< answered, failed or cancelled; about to be delivered
};

/// What an acquire queue notes of a caller: the base of waiting::waiter, or, for a direct check,
/// one of three marks (waiting/direct_checks.cpp).
struct queued_waiter {};

/// What the library notes of a check while it is in flight. It lies in the check's flight_storage.
struct in_flight {
  using hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  using time = std::chrono::steady_clock::time_point;

  check_stage stage = check_stage::idle;
  bool is_detached = false;      // it has no caller, or that has left: see detached_check.hpp
  bool is_stand_in = false;      // takes the place of a check that has ended
  bool is_internal : 1 = false;  // made by a queue, which waits itself, or by local_units
  bool replaces : 1 = false;     // asks for a reservation in place of one that goes back
  bool was_put_off : 1 = false;  // its deadline, because the process stood still
  std::uint8_t
      resends : 7 = 0;  // how often it was sent again: a script was missing, or a swap lost
  std::uint8_t came_back : 1 = 0;  // it was sent before and did not run
  std::uint8_t : 0;                // other mutexes guard what follows
  // In a Redis Cluster, where these are guarded by the cluster's mutex; else 0:
  std::uint8_t redirects : 7 = 0;  // how often a node sent it on, counted up to:
  static constexpr std::uint8_t most_redirects_counted = 127;
  std::uint8_t is_held : 1 = 0;                   // it waits in the cluster, at no node
  std::uint16_t route = 0;                        // the slot of its keys, and these flags:
  static constexpr std::uint16_t asks = 0x4000;   // it is sent behind ASKING, alone
  static constexpr std::uint16_t alone = 0x8000;  // its script call has no other check
  std::uint16_t slot() const noexcept { return route & (asks - 1); }
  bool is_asking() const noexcept { return (route & asks) != 0; }
  bool is_alone() const noexcept { return (route & alone) != 0; }
  bool has_own_call() const noexcept { return route >= asks; }  // a node has asked for that
  // Its index among the checks of one key in a script call. With memcached: how many requests for
  // the value of its subject were sent before it came.
  std::uint32_t position = 0;
  // Its rank among the checks of a pipeline; in a Redis Cluster, among those of its slot.
  std::uint32_t order = 0;
  time deadline{};
  hook line;                        // in the line, or among the checks of one key in a script call
  hook wheel;                       // in the deadline wheel
  time sent{};                      // when it was last encoded; before that, zero or when it came
  queued_waiter* queued = nullptr;  // guarded by the mutex of its queue
  mutable std::uint64_t subject_hash = 0;  // 0: not computed yet

  static void begin(flight_storage& in) noexcept { ::new (in.bytes_) in_flight; }
  static in_flight& of(flight_storage& in) noexcept {
    return *std::launder(reinterpret_cast<in_flight*>(in.bytes_));
  }
  static const in_flight& of(const flight_storage& in) noexcept {
    return *std::launder(reinterpret_cast<const in_flight*>(in.bytes_));
  }
  check& whole() noexcept { return static_cast<check&>(*reinterpret_cast<flight_storage*>(this)); }
};

inline in_flight& flight_of(check& c) noexcept { return in_flight::of(c); }
inline const in_flight& flight_of(const check& c) noexcept { return in_flight::of(c); }

/// The hash of the check's own subject, computed when it is first asked for.
inline std::uint64_t subject_hash(const check& c) noexcept {
  const in_flight& f = flight_of(c);
  if (f.subject_hash == 0) f.subject_hash = subject_hash(c.subject.view());
  return f.subject_hash;
}

/// Makes an intrusive list of checks out of one of these hooks.
template <in_flight::hook in_flight::*Hook>
struct flight_hook {
  using hook_type = in_flight::hook;
  using hook_ptr = hook_type*;
  using const_hook_ptr = const hook_type*;
  using value_type = check;
  using pointer = check*;
  using const_pointer = const check*;

  static hook_ptr to_hook_ptr(check& c) noexcept { return &(flight_of(c).*Hook); }
  static const_hook_ptr to_hook_ptr(const check& c) noexcept { return &(flight_of(c).*Hook); }
  static pointer to_value_ptr(hook_ptr h) noexcept {
    return &boost::intrusive::get_parent_from_member(h, Hook)->whole();
  }
  static const_pointer to_value_ptr(const_hook_ptr h) noexcept {
    return to_value_ptr(const_cast<hook_ptr>(h));
  }
};

}  // namespace weir::detail
