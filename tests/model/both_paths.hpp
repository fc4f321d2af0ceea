#pragma once

#include <initializer_list>

#include "model/own_script.hpp"
#include "policy/tier_set.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

/// The two paths of checks and reservations with several keys: the common one and the full kernels.
namespace weir::model {

using key_list = std::vector<std::string>;
using number_list = std::vector<std::int64_t>;

enum class path { common, full };

inline bool has_common_path(const std::vector<redis::call_tier>& tiers, bool reserves = false) {
  return joint_scripts::list_of(tiers, reserves).has_common_path;
}

/// Asks the scripts of several keys on either path.
struct both_paths : script_fixture {
  joint_scripts scripts{client};

  /// What the script finds, by check; `keys` has one per tier for each. Throws after an error.
  std::vector<number_list> check(const std::vector<redis::call_tier>& tiers, const key_list& keys,
                                 std::int64_t now, const number_list& counts, path which,
                                 bool may_share_keys = false) {
    if (which == path::common) BOOST_TEST_REQUIRE(has_common_path(tiers));
    scripts.set_clock(now);
    const number_list numbers = scripts.run(tiers, keys, counts, which == path::full,
                                            may_share_keys);
    BOOST_TEST(numbers[0] == now);
    const std::size_t checks = keys.size() / tiers.size();
    const auto width = static_cast<long>((numbers.size() - 1) / checks);
    std::vector<number_list> found;
    for (auto at = numbers.begin() + 1; at != numbers.end(); at += width) {
      found.emplace_back(at, at + width);
    }
    return found;
  }

  /// What redis::read_found() says.
  number_list turns(const std::vector<redis::call_tier>& tiers, const key_list& keys,
                    std::int64_t now, const number_list& counts, std::int64_t max_wait, path which,
                    bool may_share_keys = false) {
    if (which == path::common) {
      BOOST_TEST_REQUIRE(has_common_path(tiers, true));
    }
    scripts.set_clock(now);
    number_list numbers = scripts.reserve(tiers, keys, counts, max_wait, which == path::full,
                                          may_share_keys);
    BOOST_TEST(numbers[0] == now);
    return numbers;
  }
};

inline std::vector<redis::call_tier> of(std::initializer_list<policies::kernel> kernels) {
  std::vector<redis::call_tier> tiers;
  for (const policies::kernel& k : kernels) tiers.push_back({k, 1});
  return tiers;
}

/// The states that a script found.
struct found_states {
  using tier = policies::tier<policies::any_replay>;

  found_states(const std::vector<redis::call_tier>& of, std::span<const std::int64_t> fields)
      : states(of.size()) {
    for (std::size_t t = 0; t < of.size(); ++t) {
      std::visit(
          [&]<class K>(const K&) {
            auto& state = states[t].emplace<typename K::replay>();
            is_ours = K::restore(fields.first(K::reply_width), state) && is_ours;
            fields = fields.subspan(K::reply_width);
          },
          of[t].kernel);
      asked.push_back({&of[t].kernel, &states[t], of[t].cost});
    }
  }
  std::span<const tier> tiers() const { return asked; }

  bool is_ours = true;
  std::vector<policies::any_replay> states;
  std::vector<tier> asked;
};

inline std::int64_t count_of(const number_list& counts, std::size_t i) {
  return i < counts.size() ? counts[i] : 1;
}

/// What becomes of the checks, by what the script found of each.
inline std::string answers(const std::vector<redis::call_tier>& tiers,
                           const std::vector<number_list>& found, std::int64_t now,
                           const number_list& counts) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const found_states states(tiers, found[i]);
    text += "\n    check " + std::to_string(i) + ": ";
    if (!states.is_ours) text += "something else";
    const std::int64_t count = count_of(counts, i);
    if (states.is_ours && count == 0) {
      text += test::text_of(policies::fetch_all(states.tiers(), now));
    }
    for (std::int64_t n = 0; states.is_ours && n < count; ++n) {
      text += test::text_of(policies::record_all(states.tiers(), now)) + "; ";
    }
  }
  return text;
}

/// The same of reservations, by what redis::read_found() says.
inline std::string answers_of_turns(const std::vector<redis::call_tier>& tiers,
                                    std::span<const std::int64_t> numbers,
                                    const number_list& counts, std::int64_t max_wait) {
  const std::int64_t now = numbers[0];
  const std::size_t width = redis::reply_width(tiers);
  numbers = numbers.subspan(1);
  std::string text;
  for (std::size_t i = 0; !numbers.empty(); ++i) {
    text += "\n    check " + std::to_string(i) + ": ";
    const bool at_once = numbers[0] == redis::at_once;
    std::optional<found_states> states;
    for (std::int64_t n = 0; n < count_of(counts, i); ++n) {
      if (n == 0 || !at_once) states.emplace(tiers, numbers.subspan(1, width));
      const std::int64_t turn = at_once ? now : numbers[0];
      const policies::request_time when(now, turn);
      text += states->is_ours
                  ? test::text_of(policies::reserve_at(states->tiers(), when, max_wait)) + "; "
                  : "something else; ";
      // A cancelled request goes back with them.
      for (std::size_t f = 1; turn > now && f <= width; ++f) {
        text += std::to_string(numbers[f]) + " ";
      }
      if (!at_once) numbers = numbers.subspan(1 + width);
    }
    if (at_once) numbers = numbers.subspan(1 + width);
  }
  return text;
}

}  // namespace weir::model
