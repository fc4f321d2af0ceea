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
/// Guesses. Some vendors refuse and name no time: then the length is a guess, `duration` at first.
/// A refusal while a cool-down runs changes nothing, because its call was sent before. One that
/// comes after a guess, no later than that lasted, doubles it, up to `longest_guess`: the vendor
/// still refuses. Any later one begins again with `duration`, and so does the next one after
/// record() with a duration of zero, which a call that the vendor has served asks for.
///
/// The clock. If it is behind the beginning of the present cool-down, a new one counts from that
/// beginning, so that it lasts long enough if the clock is put right. A cool-down has no effect if
/// the clock is behind its beginning by more than its length and a minute: then it began while the
/// clock was ahead, and would last until the clock gets there again. The next check that passes
/// deletes it; otherwise it would have an effect again when the clock comes near.
class cool_down {
 public:
  struct state {
    instant until = 0;       // 0: there has been none
    span marked_length = 0;  // of the cool-down that ends then; plus guess_mark for a guess

    bool is_guess() const noexcept { return marked_length >= guess_mark; }
    span length() const noexcept { return marked_length % guess_mark; }
    instant begin() const noexcept { return until - length(); }
    bool has_effect(instant clock) const noexcept {
      return begin() - clock <= length() + span{60} * 1'000'000;
    }
    /// What a refusal tells: no more than the whole cool-down, also while the clock is behind its
    /// beginning. Whoever comes back then may pass, if the clock was put right meanwhile.
    span left(instant clock) const noexcept { return std::min(until - clock, length()); }
    friend bool operator==(const state&, const state&) = default;
  };

  static constexpr span longest = span{31} * 24 * 3600 * 1'000'000;

  /// No cool-down is as long. The scripts have the same number, and read it as a digit.
  static constexpr span guess_mark = 1'000'000'000'000'000;

  /// 0 <= duration <= longest. `longest_guess`: 0, or duration <= longest_guess <= longest.
  explicit cool_down(span duration = 0, span longest_guess = 0) noexcept
      : duration_(duration), longest_guess_(longest_guess) {}

  units ceiling() const noexcept { return max_units; }
  units limit() const noexcept { return unlimited; }

  decision record(state& s, request_time now, units cost) const noexcept;
  decision fetch(const state& s, request_time now, units cost) const noexcept;
  instant matters_until(const state& s) const noexcept {
    return s.is_guess() ? s.until + s.length() : s.until;
  }
  span reach() const noexcept { return std::max(duration_, 2 * longest_guess_); }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::cool_down;
  static constexpr bool tells_state = false;
  bool counts_refused() const noexcept { return false; }

  // Its other half is cool_down.lua.
  static constexpr std::size_t script_constants = 2;  // arguments()
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
  script_arguments arguments(units) const noexcept { return {duration_, longest_guess_}; }
  void pack_common_constants(std::string&, units) const {}
  bool has_common_path() const noexcept { return duration_ == 0 && longest_guess_ == 0; }
  bool coalesces() const noexcept { return true; }
  static bool read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;

  friend bool operator==(const cool_down&, const cool_down&) = default;

 private:
  void guess(state& s, instant clock) const noexcept;

  span duration_, longest_guess_;
};

}  // namespace weir::policies
