#include "weir/local_limiter.hpp"

#include <boost/system/system_error.hpp>
#include <mutex>
#include <span>
#include <vector>

#include "clock.hpp"
#include "policy/joint.hpp"

namespace weir {
namespace {

void check_cost(std::int64_t cost, policies::units ceiling) {
  if (cost < 1 || cost > max_units) throw boost::system::system_error(error::invalid_cost);
  if (cost > ceiling) throw boost::system::system_error(error::cost_exceeds_limit);
}

}  // namespace

template <class Policy>
struct local_limiter<Policy>::impl {
  policies::kernel kernel;
  std::function<time_point()> clock;
  std::mutex mutex;
  policies::any_state state;

  impl(const Policy& policy, std::function<time_point()>&& c)
      : kernel(policies::compile(policy)), clock(std::move(c)) {}

  // Runs `what` on the kernel and its state, under the lock.
  template <class F>
  decision with_state(std::int64_t cost, F&& what) {
    const policies::instant t = detail::read_clock(clock);
    const std::lock_guard lock(mutex);
    return std::visit(
        [&](const auto& k) {
          check_cost(cost, k.ceiling());
          return what(k, policies::state_for(k, state), t);
        },
        kernel);
  }
  decision record(std::int64_t cost) {
    return with_state(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.record(s, t, cost); });
  }
  decision fetch(std::int64_t cost) {
    return with_state(
        cost, [&](const auto& k, auto& s, policies::instant t) { return k.fetch(s, t, cost); });
  }
  void reset() {
    const std::lock_guard lock(mutex);
    state = {};
  }
};

template <>
struct local_limiter<tiers>::impl {
  std::vector<policies::kernel> kernels;
  std::function<time_point()> clock;
  std::mutex mutex;
  std::vector<policies::any_state> states;
  std::vector<policies::tier<policies::any_state>> all;
  policies::units ceiling = max_units;

  impl(const tiers& policy, std::function<time_point()>&& c)
      : kernels(policies::compile(policy)), clock(std::move(c)), states(kernels.size()) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::visit(
          [&](const auto& k) {
            ceiling = std::min(ceiling, k.ceiling());
            policies::state_for(k, states[i]);
          },
          kernels[i]);
      all.push_back({&kernels[i], &states[i], 1});
    }
  }

  std::span<const policies::tier<policies::any_state>> with(std::int64_t cost) {
    check_cost(cost, ceiling);
    for (policies::tier<policies::any_state>& t : all) t.cost = cost;
    return all;
  }
  decision record(std::int64_t cost) {
    const policies::instant t = detail::read_clock(clock);
    const std::lock_guard lock(mutex);
    return policies::record_all(with(cost), t);
  }
  decision fetch(std::int64_t cost) {
    const policies::instant t = detail::read_clock(clock);
    const std::lock_guard lock(mutex);
    return policies::fetch_all(with(cost), t);
  }
  void reset() {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      states[i] = {};
      std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, kernels[i]);
    }
  }
};

template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& policy, std::function<time_point()> clock)
    : impl_(new impl(policy, std::move(clock))) {}

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
