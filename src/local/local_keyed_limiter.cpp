#include "weir/local_keyed_limiter.hpp"

#include <boost/system/system_error.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "local/keyed_rules.hpp"
#include "local/keyed_table.hpp"
#include "local/local_clock.hpp"
#include "local/local_policy.hpp"
#include "memory/bounded_key.hpp"
#include "text/option_range.hpp"

namespace weir {
namespace detail {

/// A limiter of some kind of state.
class keyed_limiter {
 public:
  virtual ~keyed_limiter() = default;
  virtual bool allowed(std::string_view key, policies::units cost) = 0;
  virtual decision record(std::string_view key, policies::units cost) = 0;
  virtual decision fetch(std::string_view key, policies::units cost) = 0;
  virtual void reset(std::string_view key) = 0;
  virtual std::size_t size() const noexcept = 0;
  virtual std::uint64_t evicted() const noexcept = 0;
};

namespace {

constexpr std::size_t max_key_size = 65'536;

template <class Rules>
class keyed_limiter_of final : public keyed_limiter {
 public:
  keyed_limiter_of(Rules&& rules, policies::units ceiling, std::size_t max_keys,
                   clock_reader&& clock)
      : table_(std::move(rules), max_keys), ceiling_(ceiling), clock_(std::move(clock)) {}

  bool allowed(std::string_view key, policies::units cost) override {
    check(key, cost);
    return table_.change(memory::bounded_key(key), now(), [&](auto& state, policies::instant t) {
      return table_.rules().allowed(state, t, cost);
    });
  }
  decision record(std::string_view key, policies::units cost) override {
    check(key, cost);
    return table_.change(memory::bounded_key(key), now(), [&](auto& state, policies::instant t) {
      return table_.rules().record(state, t, cost);
    });
  }
  decision fetch(std::string_view key, policies::units cost) override {
    check(key, cost);
    const typename Rules::state_type fresh{};
    return table_.look(memory::bounded_key(key), now(),
                       [&](const auto* state, policies::instant t) {
                         return table_.rules().fetch(state == nullptr ? fresh : *state, t, cost);
                       });
  }
  void reset(std::string_view key) override {
    check(key, 1);
    table_.erase(memory::bounded_key(key));
  }
  std::size_t size() const noexcept override { return table_.size(); }
  std::uint64_t evicted() const noexcept override { return table_.evicted(); }

 private:
  auto now() const noexcept {
    return [this] { return clock_.now(); };
  }
  void check(std::string_view key, policies::units cost) const {
    if (key.empty() || key.size() > max_key_size) {
      throw boost::system::system_error(error::invalid_subject);
    }
    require_cost(cost, ceiling_);
  }

  keyed_table<Rules> table_;
  const policies::units ceiling_;
  const clock_reader clock_;
};

/// The limiter for the smallest form that holds the policy's states.
std::unique_ptr<keyed_limiter> make_keyed_limiter(const tiers& policy,
                                                  const local_keyed_options& options,
                                                  clock_reader&& clock) {
  std::vector<policies::kernel> kernels = policies::compile(policy);
  const std::string fault = text::fault_of_number("max_keys", options.max_keys, 1, 1'000'000'000);
  if (!fault.empty()) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "local_keyed_options: " + fault);
  }
  const policies::units ceiling = policies::ceiling_of(kernels);
  const auto made_of = [&]<class Rules>(Rules&& rules) -> std::unique_ptr<keyed_limiter> {
    return std::make_unique<keyed_limiter_of<Rules>>(std::move(rules), ceiling, options.max_keys,
                                                     std::move(clock));
  };
  if (kernels.size() > 1) return made_of(tier_rules(std::move(kernels)));
  return std::visit(
      [&]<class Kernel>(const Kernel& k) -> std::unique_ptr<keyed_limiter> {
        if constexpr (std::is_same_v<Kernel, policies::meter>) {
          if (const auto form = bucket_word::of(k)) return made_of(word_rules(*form));
        } else if constexpr (std::is_same_v<Kernel, policies::fixed_window>) {
          if (const auto form = window_word::of(k)) return made_of(word_rules(*form));
        }
        if constexpr (policies::is_policy(Kernel::kind)) return made_of(kernel_rules(k));
        return nullptr;  // no policy is compiled to the others
      },
      kernels.front());
}

}  // namespace
}  // namespace detail

template <class Policy>
local_keyed_limiter<Policy>::local_keyed_limiter(const Policy& rule,
                                                 const local_keyed_options& options,
                                                 local_clock clock)
    : impl_(detail::make_keyed_limiter(detail::as_tiers(rule), options,
                                       detail::clock_reader(clock))) {}
template <class Policy>
local_keyed_limiter<Policy>::local_keyed_limiter(const Policy& rule,
                                                 const local_keyed_options& options,
                                                 std::function<time_point()> clock)
    : impl_(detail::make_keyed_limiter(detail::as_tiers(rule), options,
                                       detail::clock_reader(std::move(clock)))) {}

template <class Policy>
local_keyed_limiter<Policy>::~local_keyed_limiter() = default;
template <class Policy>
local_keyed_limiter<Policy>::local_keyed_limiter(local_keyed_limiter&&) noexcept = default;
template <class Policy>
local_keyed_limiter<Policy>& local_keyed_limiter<Policy>::operator=(
    local_keyed_limiter&&) noexcept = default;

template <class Policy>
bool local_keyed_limiter<Policy>::allowed(std::string_view key, std::int64_t cost) {
  return impl_->allowed(key, cost);
}

template <class Policy>
decision local_keyed_limiter<Policy>::record(std::string_view key, std::int64_t cost) {
  return impl_->record(key, cost);
}

template <class Policy>
decision local_keyed_limiter<Policy>::fetch(std::string_view key, std::int64_t cost) const {
  return impl_->fetch(key, cost);
}

template <class Policy>
void local_keyed_limiter<Policy>::reset(std::string_view key) {
  impl_->reset(key);
}

template <class Policy>
std::size_t local_keyed_limiter<Policy>::size() const noexcept {
  return impl_->size();
}

template <class Policy>
std::uint64_t local_keyed_limiter<Policy>::evicted() const noexcept {
  return impl_->evicted();
}

template class local_keyed_limiter<fixed_window>;
template class local_keyed_limiter<sliding_log>;
template class local_keyed_limiter<sliding_window>;
template class local_keyed_limiter<token_bucket>;
template class local_keyed_limiter<gcra>;
template class local_keyed_limiter<leaky_bucket>;
template class local_keyed_limiter<policy>;
template class local_keyed_limiter<tiers>;

}  // namespace weir
