#pragma once

#include <algorithm>
#include <cstddef>
#include <variant>

#include "redis/script/script_call.hpp"

namespace weir::redis {

/// How many keys one script call takes, so that the server mostly runs it for at most 12 times as
/// long as one usual token-bucket script (docs/performance.md: measurements and exceptions).
///
/// Costly are new keys of buckets and windows, and windows that have ended, because the script also
/// sets the TTL; and all keys of a check if one of several is in no plain state. The server's
/// answers tell which keys were costly: calls are small until few of the recent keys were. Calls of
/// logs alone are always small, and their answers tell nothing.
class call_size {
 public:
  /// `most`: what the user allows. Above 64, all calls grow in proportion, except those with a
  /// bound on their checks.
  explicit call_size(std::size_t most) : most_(most) {}

  std::size_t most() const noexcept { return most_; }

  /// The weight of one reservation at one tier. A call takes reservations up to a weight of 24, but
  /// at least one: if they have to wait, the full kernels search a time for each one, and in a log
  /// among many entries.
  static std::size_t turn_weight(const policies::kernel& k) noexcept {
    if (is_log(k)) return 8;
    return std::holds_alternative<policies::sliding_window>(k) ? 3 : 2;
  }
  /// The most reservations in a call, each of this weight at all its tiers together.
  static std::size_t most_turns(std::size_t weight) noexcept {
    return std::max<std::size_t>(1, 24 / weight);
  }

  /// The most checks in the call, if the script runs each of them on its own, also equal ones; else
  /// no bound.
  static std::size_t most_checks(const script_call& c) noexcept {
    if (!c.traits.waits && (!c.is_record() || c.tiers.size() == 1)) {
      return script_call::unbounded;
    }
    std::size_t weight = 0, leaky_tiers = 0;
    for (const call_tier& t : c.tiers) {
      weight += turn_weight(t.kernel);
      leaky_tiers += policies::is_leaky(t.kernel) ? 1 : 0;
    }
    if (c.traits.waits) return most_turns(weight);
    return leaky_tiers > 1 ? std::max<std::size_t>(1, keys_of(joint, c) / c.tiers.size())
                           : script_call::unbounded;
  }

  /// Notes the answer to a call.
  void answered(const script_call& c) noexcept {
    if (c.answered_keys == 0) return;
    const auto keys = static_cast<double>(c.answered_keys);
    double& known = costly_of(c);
    known += (static_cast<double>(c.costly_keys) / keys - known) * std::min(1.0, keys / memory);
  }

  /// The most keys in the call; each tier counts.
  std::size_t most_keys(const script_call& c) const noexcept {
    if (most_ <= joint.keys_with_log) return most_;  // the smallest bound
    const std::size_t usual = usual_keys(c);
    return most_ <= usual ? most_ : std::max(usual, most_ * usual / script_call::usual_keys);
  }

 private:
  /// After so many keys, nothing older counts.
  static constexpr double memory = 128;
  /// With a larger part of costly keys, a call of 64 would take the server too long.
  static constexpr double most_costly = 0.2;
  static constexpr std::size_t unknown_keys = 32;
  /// The most keys in a call of one kind of script, and the most if a tier is a log.
  struct bound {
    std::size_t keys, keys_with_log;
  };
  static constexpr bound common_path{script_call::usual_keys, 18}, full_kernel{15, 10};
  /// Buckets whose T is not a whole number of microseconds.
  static constexpr bound in_parts{40, 40};
  /// Several tiers: without a common path; and with one, where keys of cool-downs do not count.
  static constexpr bound joint{12, 6}, joint_common_path{28, 18};

  /// Checks of one key and of several have different costly keys.
  double& costly_of(const script_call& c) noexcept { return costly_[c.tiers.size() > 1]; }
  double costly_of(const script_call& c) const noexcept { return costly_[c.tiers.size() > 1]; }

  std::size_t usual_keys(const script_call& c) const noexcept {
    if (!c.traits.decides_now) return script_call::usual_keys;
    const auto most_of = [&](const bound& b) { return keys_of(b, c); };
    if (c.tiers.size() > 1) {
      const bool is_usual = costly_of(c) <= most_costly && is_common(c);
      if (!is_usual) return most_of(joint);
      return most_of(joint_common_path) / written_tiers(c) * c.tiers.size();
    }
    const std::size_t most = most_of(
        std::visit([](const auto& k) { return bound_of(k); }, c.tiers.front().kernel));
    return costly_of(c) > most_costly ? std::min(most, unknown_keys) : most;
  }

  static bool is_common(const script_call& c) noexcept {
    return c.script != no_script && list_of_script(c.script).has_common_path;
  }

  static std::size_t keys_of(const bound& b, const script_call& c) noexcept {
    const bool has_log = std::any_of(c.tiers.begin(), c.tiers.end(),
                                     [](const call_tier& t) { return is_log(t.kernel); });
    return has_log ? b.keys_with_log : b.keys;
  }

  static bool is_log(const policies::kernel& k) noexcept {
    return std::holds_alternative<policies::sliding_log>(k);
  }

  /// A check only looks at cool-downs.
  static std::size_t written_tiers(const script_call& c) noexcept {
    const auto cool_downs = std::count_if(c.tiers.begin(), c.tiers.end(), [](const call_tier& t) {
      return std::holds_alternative<policies::cool_down>(t.kernel);
    });
    return std::max<std::size_t>(1, c.tiers.size() - static_cast<std::size_t>(cool_downs));
  }

  template <class Kernel>
  static bound bound_of(const Kernel& kernel) noexcept {
    if constexpr (Kernel::kind == policies::kernel_kind::bucket) {
      return kernel.has_whole_units() ? common_path : in_parts;
    } else if constexpr (policies::is_policy(Kernel::kind)) {
      return kernel.has_common_path() ? common_path : full_kernel;
    } else {
      return full_kernel;
    }
  }

  std::size_t most_;
  double costly_[2] = {1, 1};  // the part of the keys answered lately that were costly
};

}  // namespace weir::redis
