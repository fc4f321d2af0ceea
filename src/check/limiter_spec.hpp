#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "check/store_backend.hpp"
#include "policy/tier_set.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

/// The part of a limiter that a store needs: keys, kernels and flags. Immutable. limiter_impl adds
/// the part that works in this process only.
struct limiter_spec {
  limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
               const weir::tiers& rules, const limiter_options& options = {});
  limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
               std::vector<policies::kernel> kernels, const limiter_options& options);
  virtual ~limiter_spec() = default;

  /// Called when the store closes. Ends waiters and leases; they keep copies of `keep_alive` while
  /// reservations may still have to go back.
  virtual void store_closes(const std::shared_ptr<const limiter_spec>& /*self*/,
                            const std::shared_ptr<void>& /*keep_alive*/) const {}
  /// See shutdown_listener::context_shut_down().
  virtual void context_shut_down() const noexcept {}
  /// The end of the subject's cool-down, as far as this process knows.
  virtual check::steady_time cool_down_until(std::string_view /*subject*/) const { return {}; }

  /// Appends the key of a subject's tier: prefix:{resource:subject}:kind, or
  /// prefix:{group}:resource:subject:kind. Everything between the braces is the hash tag, and the
  /// only one: braces in names are escaped, and so is the colon in the resource, which keeps
  /// different pairs apart.
  void append_key(std::string& out, std::string_view subject, std::size_t tier = 0) const;

  /// Appends the key of the marker for the receipt `id`. It is in the same slot as the states.
  void append_marker(std::string& out, std::string_view subject, std::uint64_t id) const;

  /// receipt::origin for a decision of this limiter alone.
  std::uint64_t origin_of(std::string_view subject) const noexcept;

  std::shared_ptr<store_backend> store;
  std::string resource;
  // A hash of prefix, group and resource: equal for limiters that share keys.
  std::uint64_t resource_id = 0;
  std::vector<policies::kernel> tiers;  // nearly always one; the cool-down tier is the last
  policies::units ceiling;              // the largest cost that can ever pass
  policies::units nominal_limit;        // decision::limit when the store fails
  bool counts_refused;
  bool has_cool_down;  // limiter_options::cool_downs
  bool can_book;       // every kernel can make reservations: acquire()
  bool can_settle;     // refund(), settle() and settle_all()
  on_failure failure;
  bool shares_keys;  // the limiter has a group

 private:
  std::string key_head_;
  std::vector<std::string> key_tails_;
  std::uint64_t origin_ = 0;
};

/// The text between the braces of a key.
std::string_view hash_tag(std::string_view key) noexcept;

/// The kernel that answers a check of this kind at a tier whose own kernel is `own`.
inline policies::kernel kernel_for(check_kind kind, const policies::kernel& own,
                                   std::int64_t cost) {
  switch (kind) {
    case check_kind::cool_down:  // `own` only reads the cool-down
      return policies::cool_down(cost);
    case check_kind::renew:
      return std::get<policies::lease_set>(own).with(policies::lease_set::act::renew);
    case check_kind::leave:
      return std::get<policies::lease_set>(own).with(policies::lease_set::act::leave);
    default:
      return own;
  }
}

/// Calls f(limiter, subject, cost, tier) for each key that a check touches.
template <class F>
void for_each_tier(const check& c, F&& f) {
  if (c.kind == check_kind::cool_down) {
    f(*c.limiter, c.subject.view(), c.cost, c.limiter->tiers.size() - 1);
    return;
  }
  const auto of_one = [&](const limiter_spec& limiter, std::string_view subject,
                          std::int64_t cost) {
    for (std::size_t tier = 0; tier < limiter.tiers.size(); ++tier) f(limiter, subject, cost, tier);
  };
  of_one(*c.limiter, c.subject.view(), c.cost);
  for (const term& t : c.further) of_one(*t.limiter, t.subject.view(), t.cost);
}

/// The vendor's remaining units for this tier; max_units (no bound) if the vendor's limit is that
/// of other tiers.
std::int64_t left_in(const check& c, std::size_t tier);

/// receipt::origin: a hash of the check's limiters, with their policies and subjects, in order.
std::uint64_t origin_of(const check& c) noexcept;

/// What a store needs to give back the units of the check's decision.
policies::tickets tickets_of(const check& c);

/// When the decision's units have all ended. From then on there is nothing to give back, so the
/// marker of the receipt is kept until then.
inline policies::instant matters_until(const decision& d) noexcept {
  return (d.decided_at + std::max(d.reset_after, std::chrono::microseconds{1}))
      .time_since_epoch()
      .count();
}

/// True if the check touches one key only.
inline bool is_single(const check& c) noexcept {
  return c.further.empty() && c.limiter->tiers.size() == 1;
}

}  // namespace weir::detail
