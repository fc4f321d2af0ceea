#include "weir/local_limiter.hpp"

#include <boost/system/system_error.hpp>
#include <mutex>

#include "clock.hpp"
#include "policy/kernel.hpp"

namespace weir {

template <class Policy>
struct local_limiter<Policy>::impl {
  policies::kernel kernel;
  std::function<time_point()> clock;
  std::mutex mutex;
  policies::any_state state;

  // Runs `what` on the kernel and its state, under the lock.
  template <class F>
  decision with_state(std::int64_t cost, F&& what) {
    if (cost < 1 || cost > max_units) throw boost::system::system_error(error::invalid_cost);
    const policies::instant t = detail::read_clock(clock);
    const std::lock_guard lock(mutex);
    return std::visit(
        [&](const auto& k) {
          using state_type = typename std::decay_t<decltype(k)>::state;
          if (cost > k.ceiling()) throw boost::system::system_error(error::cost_exceeds_limit);
          auto* s = std::get_if<state_type>(&state);
          if (s == nullptr) s = &state.template emplace<state_type>();
          return what(k, *s, t);
        },
        kernel);
  }
};

template <class Policy>
local_limiter<Policy>::local_limiter(const Policy& policy, std::function<time_point()> clock)
    : impl_(new impl{policies::compile(policy), std::move(clock), {}, {}}) {}

template <class Policy>
local_limiter<Policy>::~local_limiter() = default;
template <class Policy>
local_limiter<Policy>::local_limiter(local_limiter&&) noexcept = default;
template <class Policy>
local_limiter<Policy>& local_limiter<Policy>::operator=(local_limiter&&) noexcept = default;

template <class Policy>
decision local_limiter<Policy>::record(std::int64_t cost) {
  return impl_->with_state(
      cost, [&](const auto& k, auto& s, policies::instant t) { return k.record(s, t, cost); });
}

template <class Policy>
decision local_limiter<Policy>::fetch(std::int64_t cost) const {
  return impl_->with_state(
      cost, [&](const auto& k, auto& s, policies::instant t) { return k.fetch(s, t, cost); });
}

template <class Policy>
void local_limiter<Policy>::reset() {
  const std::lock_guard lock(impl_->mutex);
  impl_->state = {};
}

template class local_limiter<fixed_window>;
template class local_limiter<sliding_log>;
template class local_limiter<sliding_window>;
template class local_limiter<token_bucket>;
template class local_limiter<gcra>;
template class local_limiter<leaky_bucket>;
template class local_limiter<policy>;

}  // namespace weir
