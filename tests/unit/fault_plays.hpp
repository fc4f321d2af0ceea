#pragma once

#include <array>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fault_strikes.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace weir::test {

/// Plays scenarios with all their faults, and counts them. `make` makes a player with some faults.
class plays {
 public:
  /// Returns what else could have gone wrong after these faults.
  template <class Make>
  std::vector<planned_fault> play(std::string_view name, manner m,
                                  const std::vector<planned_fault>& faults, bool explores,
                                  Make&& make) {
    BOOST_TEST_CONTEXT(name << ", " << text_of(m, faults)) {
      const auto p = make(m, faults);
      p->explores = explores;
      p->run();
      ++runs_;
      steps_ += p->steps;
      for (const planned_fault& f : faults) ++struck_[static_cast<std::size_t>(f.what)];
      return std::move(p->possible);
    }
    return {};
  }
  /// Without a fault, then with each fault at each step.
  template <class Make>
  void play_all(std::string_view name, manner m, Make&& make, std::size_t one_of = 1) {
    for (const planned_fault& f : play(name, m, {}, true, make)) {
      if (number_++ % one_of == 0) play(name, m, {f}, false, make);
    }
  }
  /// With two faults, the second while it recovers from the first, and later. Plays one pair of
  /// several; the run's seed says which, so that several runs play them all.
  template <class Make>
  void play_pairs(std::string_view name, manner m, Make&& make, std::size_t one_of) {
    if (pair_ == 0) BOOST_TEST_MESSAGE("seed " << (pair_ = run_seed()));
    for (const planned_fault& first : play(name, m, {}, true, make)) {
      for (const planned_fault& second : play(name, m, {first}, true, make)) {
        if (pair_++ % one_of == 0) play(name, m, {first, second}, false, make);
      }
    }
  }
  /// Each fault has struck somewhere, but these. A sanitizer's run plays too few to tell.
  void expect_all(std::initializer_list<fault_kind> but = {}) const {
    BOOST_TEST_MESSAGE(runs_ << " runs, " << steps_ << " steps");
    for (std::size_t k = 0; k < fault_kinds; ++k) {
      const auto what = static_cast<fault_kind>(k);
      const bool is_left_out = std::find(but.begin(), but.end(), what) != but.end();
      BOOST_TEST_MESSAGE(struck_[k] << " times: " << name_of(what));
      if (is_left_out || !is_sanitized) {
        BOOST_TEST((struck_[k] == 0) == is_left_out, name_of(what));
      }
    }
  }

 private:
  std::size_t runs_ = 0, steps_ = 0, number_ = 0;
  std::uint64_t pair_ = 0;
  std::array<std::size_t, fault_kinds> struck_{};
};

/// How things may go without a fault. A sanitizer's run plays two of them.
inline std::vector<manner> manners() {
  std::vector<manner> all;
  for (const bool eager : {false, true}) {
    for (const bool whole : {false, true}) {
      for (const bool late : {false, true}) all.push_back({eager, whole, late, false});
      all.push_back({eager, whole, whole, true});
    }
  }
  return all;
}

}  // namespace weir::test
