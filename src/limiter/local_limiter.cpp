#include "weir/local_limiter.hpp"

#include <algorithm>
#include <array>
#include <boost/system/system_error.hpp>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "limiter/local_clock.hpp"
#include "limiter/one_word.hpp"
#include "policy/tier_set.hpp"

namespace weir {

template <class Policy>
struct local_limiter<Policy>::impl {
  std::vector<policies::kernel> kernels;  // nearly always one
  detail::clock_reader clock;
  policies::units ceiling = max_units;
  std::optional<detail::one_word> word;  // if the state fits one; else:
  std::mutex mutex;
  std::vector<policies::any_state> states;

  impl(const tiers& policy, detail::clock_reader&& c)
      : kernels(policies::compile(policy)), clock(std::move(c)) {
    for (const policies::kernel& kernel : kernels) {
      ceiling = std::min(ceiling, std::visit([](const auto& k) { return k.ceiling(); }, kernel));
    }
    if (kernels.size() == 1) {
      if (auto fitting = detail::one_word::of(kernels[0])) word.emplace(std::move(*fitting));
    }
    reset();
  }

  bool allowed(std::int64_t cost) {
    if (!word) return record(cost).allowed;
    check(cost);
    return word->allowed([this] { return clock.now(); }, cost);
  }
  decision record(std::int64_t cost) {
    check(cost);
    if (word) return word->record([this] { return clock.now(); }, cost);
    return answer(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.record(s, t, cost); },
        [](auto all, policies::instant t) { return policies::record_all(all, t); });
  }
  decision fetch(std::int64_t cost) {
    check(cost);
    if (word) return word->fetch([this] { return clock.now(); }, cost);
    return answer(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.fetch(s, t, cost); },
        [](auto all, policies::instant t) { return policies::fetch_all(all, t); });
  }
  void reset() {
    if (word) return word->reset();
    const std::lock_guard lock(mutex);
    states.assign(kernels.size(), {});
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, kernels[i]);
    }
  }

 private:
  void check(std::int64_t cost) const {
    if (cost >= 1 && cost <= ceiling) return;
    throw boost::system::system_error(cost < 1 || cost > max_units ? error::invalid_cost
                                                                   : error::cost_exceeds_limit);
  }

  template <class One, class All>
  decision answer(std::int64_t cost, One&& one, All&& all) {
    const std::lock_guard lock(mutex);
    const policies::instant t = clock.now();
    if (kernels.size() == 1) {
      return std::visit([&](const auto& k) { return one(k, policies::state_for(k, states[0]), t); },
                        kernels[0]);
    }
    std::array<policies::tier<policies::any_state>, tiers::max_size> asked;
    for (std::size_t i = 0; i < kernels.size(); ++i) asked[i] = {&kernels[i], &states[i], cost};
    return all(std::span<const policies::tier<policies::any_state>>(asked.data(), kernels.size()),
               t);
  }
};

namespace {

const tiers& as_tiers(const tiers& policy) { return policy; }
tiers as_tiers(const policy& policy) { return tiers(policy); }

}  // namespace

template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& policy, local_clock clock)
    : impl_(new impl(as_tiers(policy), detail::clock_reader(clock))) {}
template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& policy, std::function<time_point()> clock)
    : impl_(new impl(as_tiers(policy), detail::clock_reader(std::move(clock)))) {}

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
