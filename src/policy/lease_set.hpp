#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/arithmetic.hpp"
#include "policy/kernel_kind.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// The leases of a subject: at most `limit` at once. A lease has a name, made of the `base` of the
/// gate that gave it and a number (the cost of a check), and lapses at its own time unless it is
/// renewed. The kernel's act says what a record does:
///
///     enter   adds a lease, if there is room and no lease has its name
///     renew   prolongs the lease to its whole length from now; a lapsed one stays lapsed,
///             even if there is room
///     leave   removes the lease
///
/// A fetch answers whether one more lease could enter. There are no reservations.
///
/// The clock. A lease that ends further ahead than its own length was not written by this clock. If
/// the last lease does, all leases that end beyond the asking gate's length are cut to their own
/// lengths from now. Each lease knows its length, because gates of different lengths may share a
/// subject.
class lease_set {
 public:
  /// lease_set.lua has the same numbers.
  enum class act : std::int64_t { enter = 0, renew = 1, leave = 2 };

  struct lease {
    std::int64_t base = 0;
    std::int64_t number = 0;
    span length = 0;
    instant until = 0;
    friend bool operator==(const lease&, const lease&) = default;
  };
  struct state {
    std::vector<lease> leases;  // in no order; some may have lapsed
    friend bool operator==(const state&, const state&) = default;
  };

  /// What the script replies: enough to answer the one check.
  struct summary {
    units in = 0;
    instant room_at = 0;  // when there will be room; 0 if there is
    instant last = 0;     // when the last one lapses; 0 if there is none
    instant own = 0;      // when the check's own lease lapses; 0 if it is not in
  };

  static constexpr units most = 100'000;
  static constexpr span shortest = 100'000;
  static constexpr span longest = span{24} * 3600 * 1'000'000;
  static constexpr std::int64_t nobody = 1;  // the number of a caller that only looks

  lease_set(units limit, span length, std::int64_t base, act what = act::enter) noexcept
      : limit_(limit), length_(length), base_(base), act_(what) {}

  lease_set with(act what) const noexcept { return {limit_, length_, base_, what}; }

  units ceiling() const noexcept { return max_units; }
  units limit() const noexcept { return limit_; }

  /// Drops lapsed leases, and shortens leases that another clock has written.
  void tidy(state& s, instant now) const;
  decision record(state& s, request_time m, std::int64_t number) const;
  decision fetch(const state& s, request_time m, std::int64_t number) const;
  instant matters_until(const state& s) const noexcept;
  span reach() const noexcept { return length_; }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::gate;
  static constexpr bool tells_state = false;
  bool counts_refused() const noexcept { return false; }

  // Its other half is lease_set.lua.
  static constexpr std::size_t script_constants = 5;  // arguments()
  static constexpr std::size_t reply_width = 4;
  static constexpr std::string_view key_suffix = "c";
  static std::string_view script() noexcept;
  using replay = summary;
  script_arguments arguments(std::int64_t number) const noexcept {
    return {limit_, length_, static_cast<std::int64_t>(act_), base_, number};
  }
  void pack_constants(std::string& to, std::int64_t number) const;
  bool has_common_path() const noexcept { return false; }
  bool coalesces() const noexcept { return false; }
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;
  decision record(replay& r, request_time m, std::int64_t number) const noexcept;
  decision fetch(const replay& r, request_time m, std::int64_t number) const noexcept;

  friend bool operator==(const lease_set&, const lease_set&) = default;

 private:
  summary summary_of(const state& s, instant now, std::int64_t number) const;
  bool passes(const summary& r) const noexcept;
  decision describe(const summary& r, instant now, bool allowed) const noexcept;

  units limit_;
  span length_;
  std::int64_t base_;
  act act_;
};

}  // namespace weir::policies
