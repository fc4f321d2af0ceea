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

/// What a store has to know of a limiter: its keys, its kernels and its flags. Immutable. A limiter
/// adds what it does in its own process: see limiter_impl.
struct limiter_spec {
  limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
               const weir::tiers& rules, const limiter_options& options = {});
  limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
               std::vector<policies::kernel> kernels, bool counts_what_it_refuses,
               const limiter_options& options);
  virtual ~limiter_spec() = default;

  /// The store is closing. Waiters and leases end, and keep copies of `hold` while their
  /// reservations may still have to go back.
  virtual void store_closes(const std::shared_ptr<const limiter_spec>& /*self*/,
                            const std::shared_ptr<void>& /*hold*/) const {}
  /// As shutdown_listener's.
  virtual void context_shut_down() const noexcept {}
  /// Until when the subject is in a cool-down, as far as this process knows.
  virtual check::steady_time cool_down_until(std::string_view /*subject*/) const { return {}; }

  /// Appends the key of a subject's tier: prefix:{resource:subject}:kind, or
  /// prefix:{group}:resource:subject:kind. Everything between the braces is the hash tag, and the
  /// only one: braces in names are escaped, and so is the colon in the resource, which keeps
  /// different pairs apart.
  void append_key(std::string& out, std::string_view subject, std::size_t tier = 0) const;

  /// The key which remembers that the decision of that id was settled; in the same slot.
  void append_marker(std::string& out, std::string_view subject, std::uint64_t id) const;

  /// Of what a decision about the subject comes from: receipt::origin, where this limiter decides
  /// alone.
  std::uint64_t origin_of(std::string_view subject) const noexcept;

  std::shared_ptr<store_backend> store;
  std::string resource;
  // Of prefix, group and resource: limiters that share keys have one
  std::uint64_t resource_id = 0;
  std::vector<policies::kernel> tiers;  // nearly always one; the hold comes last
  policies::units ceiling;              // the largest cost that can ever pass
  policies::units nominal_limit;        // what a decision calls `limit` when the store cannot say
  bool counts_refused;
  bool has_cool_down;  // limiter_options::cool_downs
  bool can_book;       // turns ahead of time: acquire()
  bool can_settle;     // refund(), settle() and settle_all()
  on_failure failure;
  bool shares_keys;  // with other limiters: there is a group

 private:
  std::string key_head_;
  std::vector<std::string> key_tails_;
  std::uint64_t origin_ = 0;
};

/// What lies between the braces of a key.
std::string_view hash_tag(std::string_view key) noexcept;

/// What answers a check at one of its tiers.
inline policies::kernel kernel_for(check_kind kind, const policies::kernel& own,
                                   std::int64_t cost) {
  switch (kind) {
    case check_kind::cool_down:  // the limiter's own hold looks only
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

/// Of what a vendor says is left, what concerns that tier: nothing, if others have the very limit
/// that it spoke of.
std::int64_t left_in(const check& c, std::size_t tier);

/// receipt::origin: the limiters that the check asks, with their policies and subjects, in order.
std::uint64_t origin_of(const check& c) noexcept;

/// What a store has to know to take back what the check holds.
policies::tickets tickets_of(const check& c);

/// From then on there is nothing to take back of what the decision took. The receipt is remembered
/// for as long.
inline policies::instant matters_until(const decision& d) noexcept {
  return (d.decided_at + std::max(d.reset_after, std::chrono::microseconds{1}))
      .time_since_epoch()
      .count();
}

/// Whether it touches one key only.
inline bool is_single(const check& c) noexcept {
  return c.further.empty() && c.limiter->tiers.size() == 1;
}

}  // namespace weir::detail
