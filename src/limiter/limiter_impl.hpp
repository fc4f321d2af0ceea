#pragma once

#include <boost/system/system_error.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "check/limiter_spec.hpp"
#include "limiter/deny_cache.hpp"
#include "limiter/lease_keeper.hpp"
#include "limiter/limiter_tally.hpp"
#include "limiter/local_fallback.hpp"
#include "limiter/local_units.hpp"
#include "limiter/met_cool_downs.hpp"
#include "waiting/waiting_room.hpp"

namespace weir {
struct concurrency_options;
}

namespace weir::detail {

/// Shared by all copies of a limiter: the part that the store knows (limiter_spec), and the
/// limiter's waiting room, leases and fallback in this process. Immutable; its parts have their own
/// locks.
struct limiter_impl final : limiter_spec {
  limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
               const weir::tiers& rules, const limiter_options& options = {});
  limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
               const concurrency_options& options);

  void store_closes(const std::shared_ptr<const limiter_spec>& self,
                    const std::shared_ptr<void>& keep_alive) const override;
  void context_shut_down() const noexcept override;

  /// What limiter::stats() gives.
  limiter_stats stats() const;
  /// Tells the limiter's handler of events, or the store's. Called without locks.
  void report(event&& e, std::string_view subject) const noexcept;

  std::vector<weir::policy> rules{};  // none for a gate
  policies::span max_cool_down = 0;
  std::chrono::microseconds default_cool_down{0};
  feedback_options response_parsing{};
  vendor_count sync_remaining_with = vendor_count::none;
  std::unique_ptr<local_fallback> fallback;     // on_failure::fallback
  std::unique_ptr<met_cool_downs> met;          // limiter_options::cool_downs
  bool doubles_guesses = false;                 // limiter_options::default_cool_down_doubles
  std::unique_ptr<deny_cache> denials;          // limiter_options::deny_cache_subjects
  std::unique_ptr<local_units> local;           // limiter_options::local_units
  std::unique_ptr<lease_keeper> leases;         // set for a gate only
  std::unique_ptr<waiting::waiting_room> room;  // for acquire(); null for a gate
  waiting::line_rules waiting_rules{};
  std::shared_ptr<const event_handler> on_event;  // null: the store's is told
  std::unique_ptr<limiter_tally> tally;
};

/// Rethrows an error of a limiter's constructor with the resource's name in its text, because a
/// service may make many limiters from one file.
[[noreturn]] void rethrow_with_name(const boost::system::system_error& e,
                                    std::string_view resource);

/// The cast is safe: every limiter_spec of a user's limiter is a limiter_impl.
inline const limiter_impl& impl_of(const limiter_spec& limiter) noexcept {
  return static_cast<const limiter_impl&>(limiter);
}

}  // namespace weir::detail
