#pragma once

#include <memory>

#include "check/limiter_spec.hpp"
#include "limiter/failure_policy.hpp"
#include "limiter/lease_keeper.hpp"
#include "waiting/acquire_queue.hpp"

namespace weir {
struct concurrency_options;
}

namespace weir::detail {

/// What all copies of a limiter share: what its store knows of it, and what it does in this
/// process. Immutable; its parts lock for themselves.
struct limiter_impl final : limiter_spec {
  limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
               const weir::tiers& rules, const limiter_options& options = {});
  limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
               const concurrency_options& options);

  void store_closes(const std::shared_ptr<const limiter_spec>& self,
                    const std::shared_ptr<void>& hold) const override;
  void context_shut_down() const noexcept override;
  check::steady_time cool_down_until(std::string_view subject) const override;

  policies::span max_cool_down = 0;
  std::chrono::microseconds default_cool_down{0};
  feedback_options response_parsing{};
  vendor_count sync_remaining_with = vendor_count::none;
  std::unique_ptr<local_fallback> fallback;  // on_failure::fallback
  std::unique_ptr<lease_keeper> leases;      // of a gate: what this process holds
  std::unique_ptr<acquire_queue> queue;      // for acquire(); a gate has none
};

/// Every limiter that a user can have is one.
inline const limiter_impl& impl_of(const limiter_spec& limiter) noexcept {
  return static_cast<const limiter_impl&>(limiter);
}

}  // namespace weir::detail
