#include "weir/local_limiter.hpp"

#include <algorithm>
#include <array>
#include <boost/system/system_error.hpp>
#include <mutex>
#include <span>
#include <vector>

#include "check/clock.hpp"
#include "policy/tier_set.hpp"

namespace weir {

template <class Policy>
struct local_limiter<Policy>::impl {
  std::vector<policies::kernel> kernels;  // nearly always one
  std::function<time_point()> clock;
  policies::units ceiling = max_units;
  std::mutex mutex;
  std::vector<policies::any_state> states;

  impl(const tiers& policy, std::function<time_point()>&& c)
      : kernels(policies::compile(policy)), clock(std::move(c)) {
    for (const policies::kernel& kernel : kernels) {
      ceiling = std::min(ceiling, std::visit([](const auto& k) { return k.ceiling(); }, kernel));
    }
    reset();
  }

  decision record(std::int64_t cost) {
    return answer(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.record(s, t, cost); },
        [](auto all, policies::instant t) { return policies::record_all(all, t); });
  }
  decision fetch(std::int64_t cost) {
    return answer(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.fetch(s, t, cost); },
        [](auto all, policies::instant t) { return policies::fetch_all(all, t); });
  }
  void reset() {
    const std::lock_guard lock(mutex);
    states.assign(kernels.size(), {});
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, kernels[i]);
    }
  }

 private:
  template <class One, class All>
  decision answer(std::int64_t cost, One&& one, All&& all) {
    if (cost < 1 || cost > max_units) throw boost::system::system_error(error::invalid_cost);
    if (cost > ceiling) throw boost::system::system_error(error::cost_exceeds_limit);
    const std::lock_guard lock(mutex);
    const policies::instant t = detail::read_clock(clock);
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
local_limiter<Policy>::local_limiter(const Policy& policy, std::function<time_point()> clock)
    : impl_(new impl(as_tiers(policy), std::move(clock))) {}

template <class Policy>
local_limiter<Policy>::~local_limiter() = default;
template <class Policy>
local_limiter<Policy>::local_limiter(local_limiter&&) noexcept = default;
template <class Policy>
local_limiter<Policy>& local_limiter<Policy>::operator=(local_limiter&&) noexcept = default;

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
