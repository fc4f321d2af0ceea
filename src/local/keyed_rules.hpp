#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "local/one_word.hpp"
#include "policy/tier_set.hpp"

namespace weir::detail {

// What local_keyed_limiter keeps for each key, and how a call changes it. state_type{}, the state
// of a new key, means that nothing was counted. local_limiter uses tier_rules, too.

/// One kernel. If its state fits one word, word_rules (one_word.hpp) serves instead.
template <class Kernel>
struct kernel_rules : Kernel {
  using state_type = typename Kernel::state;

  explicit kernel_rules(const Kernel& kernel) : Kernel(kernel) {}

  bool allowed(state_type& state, policies::instant now, policies::units cost) const {
    return this->record(state, now, cost).allowed;
  }
};

/// Several kernels that count together.
class tier_rules {
 public:
  using state_type = std::unique_ptr<policies::any_state[]>;  // null: nothing was counted

  explicit tier_rules(std::vector<policies::kernel> kernels) : kernels_(std::move(kernels)) {}

  bool allowed(state_type& states, policies::instant now, policies::units cost) const {
    return record(states, now, cost).allowed;
  }
  decision record(state_type& states, policies::instant now, policies::units cost) const {
    if (states == nullptr) states = make_states();
    return policies::record_all(tiers_of(states.get(), cost).all(), now);
  }
  decision fetch(const state_type& states, policies::instant now, policies::units cost) const {
    // Reading changes no state.
    const state_type fresh = states == nullptr ? make_states() : nullptr;
    auto* const seen = states == nullptr ? fresh.get() : states.get();
    return policies::fetch_all(tiers_of(seen, cost).all(), now);
  }
  policies::instant matters_until(const state_type& states) const noexcept {
    policies::instant last = 0;
    each_tier(states,
              [&](const auto& k, const auto& s) { last = std::max(last, k.matters_until(s)); });
    return last;
  }
  /// The units in use in the tier whose state matters longest.
  policies::units in_use(const state_type& states, policies::instant now) const noexcept {
    policies::instant last = -1;
    policies::units found = 0;
    each_tier(states, [&](const auto& k, const auto& s) {
      const policies::instant end = k.matters_until(s);
      if (end > last) last = end, found = k.in_use(s, now);
    });
    return found;
  }
  /// True if the state of a tier is.
  bool is_far_ahead(const state_type& states, policies::instant now) const noexcept {
    bool is_ahead = false;
    each_tier(states,
              [&](const auto& k, const auto& s) { is_ahead = is_ahead || k.is_far_ahead(s, now); });
    return is_ahead;
  }

 private:
  struct tier_list {
    std::array<policies::tier<policies::any_state>, tiers::max_size> each;
    std::size_t size;
    std::span<const policies::tier<policies::any_state>> all() const noexcept {
      return {each.data(), size};
    }
  };

  /// Calls f(kernel, state) for each tier, both of their own types.
  template <class F>
  void each_tier(const state_type& states, F&& f) const noexcept {
    for (std::size_t i = 0; states != nullptr && i < kernels_.size(); ++i) {
      const auto call = [&]<class Kernel>(const Kernel& k) {
        if constexpr (policies::is_policy(Kernel::kind)) f(k, policies::state_for(k, states[i]));
      };
      std::visit(call, kernels_[i]);
    }
  }
  state_type make_states() const {
    auto states = std::make_unique<policies::any_state[]>(kernels_.size());
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, kernels_[i]);
    }
    return states;
  }
  tier_list tiers_of(policies::any_state* states, policies::units cost) const noexcept {
    tier_list list{{}, kernels_.size()};
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      list.each[i] = {&kernels_[i], &states[i], cost};
    }
    return list;
  }

  std::vector<policies::kernel> kernels_;
};

}  // namespace weir::detail
