#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "policy/kernel_kind.hpp"
#include "policy/reservation.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// The kernel of cool-downs: nothing passes before `until`. It is the last tier of a limiter. A
/// check only looks. record() of a kernel with a duration moves `until`, and only to a later time.
///
/// The clock. If it is behind the beginning of the present cool-down, a new one counts from that
/// beginning, so that it lasts long enough if the clock is put right. A cool-down has no effect if
/// the clock is behind its beginning by more than its length and a minute: then it began while the
/// clock was ahead, and would last until the clock gets there again. The next check that passes
/// deletes it; otherwise it would have an effect again when the clock comes near.
class cool_down {
 public:
  struct state {
    instant until = 0;  // 0: there has been none
    span length = 0;    // of the cool-down that ends then

    instant begin() const noexcept { return until - length; }
    bool has_effect(instant clock) const noexcept {
      return begin() - clock <= length + span{60} * 1'000'000;
    }
    /// What a refusal tells: no more than the whole cool-down, also while the clock is behind its
    /// beginning. Whoever comes back then may pass, if the clock was put right meanwhile.
    span left(instant clock) const noexcept { return std::min(until - clock, length); }
    friend bool operator==(const state&, const state&) = default;
  };

  static constexpr span longest = span{31} * 24 * 3600 * 1'000'000;

  /// 0 <= duration <= longest.
  explicit cool_down(span duration = 0) noexcept : duration_(duration) {}

  units ceiling() const noexcept { return max_units; }
  units limit() const noexcept { return unlimited; }

  decision record(state& s, request_time now, units cost) const noexcept;
  decision fetch(const state& s, request_time now, units cost) const noexcept;
  instant matters_until(const state& s) const noexcept { return s.until; }
  span reach() const noexcept { return duration_; }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::cool_down;
  static constexpr bool tells_state = false;
  bool counts_refused() const noexcept { return false; }

  // Its other half is cool_down.lua.
  static constexpr std::size_t script_constants = 1;  // arguments()
  static constexpr std::size_t reply_width = 2;
  static constexpr std::string_view key_suffix = "h";
  static std::string_view script() noexcept;
  /// It counts nothing.
  void give_back(state&, instant, const ticket&, units) const noexcept {}
  void charge(state&, instant, units) const noexcept {}
  void lower(state&, instant, units) const noexcept {}
  static std::string_view settle_script() noexcept {
    return "local function give_back() end\nlocal charge, lower = give_back, give_back\n";
  }
  using replay = state;
  script_arguments arguments(units) const noexcept { return {duration_}; }
  void pack_common_constants(std::string&, units) const {}
  bool has_common_path() const noexcept { return duration_ == 0; }
  bool coalesces() const noexcept { return true; }
  static bool read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;

  friend bool operator==(const cool_down&, const cool_down&) = default;

 private:
  span duration_;
};

}  // namespace weir::policies
