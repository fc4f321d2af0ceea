#include "weir/local_limiter.hpp"

#include <mutex>
#include <optional>
#include <vector>

#include "local/keyed_rules.hpp"
#include "local/local_clock.hpp"
#include "local/local_policy.hpp"
#include "local/one_word.hpp"

namespace weir {

template <class Policy>
struct local_limiter<Policy>::impl {
  policies::kernel kernel;  // of the only tier
  policies::units ceiling;
  detail::clock_reader clock;
  std::optional<detail::one_word> word;  // if the state fits one; else:
  std::mutex mutex;
  policies::any_state state;
  std::optional<detail::tier_rules> several;  // with more tiers; then these have the states
  detail::tier_rules::state_type states;

  impl(const tiers& policy, detail::clock_reader&& c) : impl(policies::compile(policy), c) {}
  impl(std::vector<policies::kernel>&& kernels, detail::clock_reader& c)
      : kernel(kernels.front()), ceiling(policies::ceiling_of(kernels)), clock(std::move(c)) {
    if (kernels.size() > 1) {
      several.emplace(std::move(kernels));
    } else if (auto fitting = detail::one_word::of(kernel)) {
      word.emplace(std::move(*fitting));
    }
  }

  bool allowed(std::int64_t cost) {
    if (!word) return record(cost).allowed;
    detail::require_cost(cost, ceiling);
    return word->allowed([this] { return clock.now(); }, cost);
  }
  decision record(std::int64_t cost) {
    detail::require_cost(cost, ceiling);
    if (word) return word->record([this] { return clock.now(); }, cost);
    const std::lock_guard lock(mutex);
    const policies::instant t = clock.now();
    if (several) return several->record(states, t, cost);
    return std::visit(
        [&](const auto& k) { return k.record(policies::state_for(k, state), t, cost); }, kernel);
  }
  decision fetch(std::int64_t cost) {
    detail::require_cost(cost, ceiling);
    if (word) return word->fetch([this] { return clock.now(); }, cost);
    const std::lock_guard lock(mutex);
    const policies::instant t = clock.now();
    if (several) return several->fetch(states, t, cost);
    return std::visit(
        [&](const auto& k) { return k.fetch(policies::state_for(k, state), t, cost); }, kernel);
  }
  void reset() {
    if (word) return word->reset();
    const std::lock_guard lock(mutex);
    state = {};
    states = nullptr;
  }
};

template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& rule, local_clock clock)
    : impl_(new impl(detail::as_tiers(rule), detail::clock_reader(clock))) {}
template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& rule, std::function<time_point()> clock)
    : impl_(new impl(detail::as_tiers(rule), detail::clock_reader(std::move(clock)))) {}

template <class Policy>
local_limiter<Policy>::~local_limiter() = default;
template <class Policy>
local_limiter<Policy>::local_limiter(local_limiter&&) noexcept = default;
template <class Policy>
local_limiter<Policy>& local_limiter<Policy>::operator=(local_limiter&&) noexcept = default;

template <class Policy>
bool local_limiter<Policy>::allowed(std::int64_t cost) {
  return impl_->allowed(cost);
}

template <class Policy>
decision local_limiter<Policy>::record(std::int64_t cost) {
  return impl_->record(cost);
}

template <class Policy>
decision local_limiter<Policy>::fetch(std::int64_t cost) const {
  return impl_->fetch(cost);
}

template <class Policy>
void local_limiter<Policy>::reset() {
  impl_->reset();
}

template class local_limiter<fixed_window>;
template class local_limiter<sliding_log>;
template class local_limiter<sliding_window>;
template class local_limiter<token_bucket>;
template class local_limiter<gcra>;
template class local_limiter<leaky_bucket>;
template class local_limiter<policy>;
template class local_limiter<tiers>;

}  // namespace weir
