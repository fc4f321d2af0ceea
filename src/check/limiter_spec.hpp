#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "check/flight.hpp"
#include "policy/tier_set.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

class store_backend;

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

  /// Appends the key of a subject's tier: prefix:{resource:subject}:kind, or
  /// prefix:{group}:resource:subject:kind, or prefix:{resource:bucket/buckets}/subject:kind.
  /// Everything between the braces is the hash tag, and the only one: braces in names are escaped,
  /// and so is the colon in the resource, which keeps different pairs apart.
  void append_key(std::string& out, std::string_view subject, std::size_t tier = 0) const;

  /// The hash tag of a key that append_key() has made, found without a search in most cases.
  std::string_view tag_of(std::string_view key, std::size_t tier = 0) const noexcept;

  /// The parts of a key before and behind what append_subject() appends.
  std::string_view key_head() const noexcept { return key_head_; }
  std::string_view key_tail(std::size_t tier = 0) const noexcept { return key_tails_[tier]; }

  /// Appends the subject as it stands in keys, behind its bucket if there are buckets.
  void append_subject(std::string& out, std::string_view subject) const;

  /// FNV-1a (64 bits) of the subject's bytes, modulo `buckets`, which is not 0. Other programs may
  /// look for keys by it, and all processes must agree on it.
  std::uint32_t bucket_of(std::string_view subject) const noexcept;

  /// True if append_subject() appends just the subject, as it is, to keys without a bucket.
  ///
  /// It tests eight bytes at a time. It may be false for a subject with other bytes above 'z', for
  /// which append_subject() then finds nothing to escape.
  static bool stands_in_keys(std::string_view subject) noexcept {
    if (subject.size() < 8) return subject.find_first_of("{}%") == subject.npos;
    constexpr std::uint64_t ones = 0x0101010101010101u, tops = ones << 7;
    const auto marks = [](const char* at) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, 8);
      const std::uint64_t above_z = ((word & ~tops) + ones * (0x7f - 'z')) | word;
      const std::uint64_t from_percent = word ^ ones * '%';
      return above_z | ((from_percent - ones) & ~from_percent);
    };
    const char* const last = subject.data() + subject.size() - 8;
    std::uint64_t all = marks(last);
    for (const char* at = subject.data(); at < last; at += 8) all |= marks(at);
    return (all & tops) == 0;
  }

  /// Appends the key of the marker for the receipt `id`. It is in the same slot as the states.
  void append_marker(std::string& out, std::string_view subject, std::uint64_t id) const;

  /// Appends the key of a subject for a store that keeps all its states in one value: the key of a
  /// tier without its kind. tier_name() is the kind.
  void append_subject_key(std::string& out, std::string_view subject) const;
  std::string_view tier_name(std::size_t tier) const noexcept;

  /// receipt::origin for a decision of this limiter alone.
  std::uint64_t origin_of(std::uint64_t subject_hash) const noexcept {
    const std::uint64_t h = (origin_ ^ subject_hash) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
  }

  std::shared_ptr<store_backend> store;
  std::string resource;
  // A hash of prefix, group, resource and buckets: equal for limiters that share keys.
  std::uint64_t resource_id = 0;
  std::vector<policies::kernel> tiers;  // nearly always one; the cool-down tier is the last
  policies::units ceiling;              // the largest cost that can ever pass
  policies::units nominal_limit;        // decision::limit when the store fails
  bool counts_refused;
  bool has_cool_down;    // limiter_options::cool_downs
  bool answers_locally;  // the limiter has a deny cache or local units
  // Units that it counted can be given back, by refund(), settle() and settle_all(), and by
  // acquire() when a caller leaves.
  bool can_settle;
  on_failure failure;
  // limiter_options::subject_buckets; 0 also for a store whose calls do not depend on hash tags.
  std::uint32_t buckets;

 private:
  [[gnu::noinline]] void append_bucket(std::string& out, std::string_view subject) const;

  std::string key_head_;
  std::string bucket_end_;  // behind the bucket's number
  std::vector<std::string> key_tails_;
  bool ends_in_tag_;  // the subject is the end of the hash tag
  std::size_t tag_begin_ = 0;
  std::uint64_t origin_ = 0;
};

/// The text between the braces of a key.
std::string_view hash_tag(std::string_view key) noexcept;

/// The id under which a store remembers what the check settles; 0 if it does not.
inline std::uint64_t settlement_id_of(const check& c) noexcept {
  return settles(c) ? as<settle_request>(c).id : 0;
}

/// The kernel that answers the check at a tier whose own kernel is `own`.
policies::kernel kernel_for(const check& c, const policies::kernel& own);

/// The number for a tier's kernel of the check's own limiter: check::units. Only what a vendor says
/// differs by tier: it is max_units (no bound) if the vendor's limit is that of other tiers.
std::int64_t units_of(const check& c, std::size_t tier);

/// Calls f(limiter, subject) for each limiter of a check, its own first.
template <class F>
void for_each_limiter(const check& c, F&& f) {
  f(*c.limiter, c.subject.view());
  for (const term& t : c.further()) f(*t.limiter, t.subject.view());
}

/// Calls f(limiter, subject, number, tier) for each key that a check touches, with the number that
/// the tier's kernel gets.
template <class F>
void for_each_tier(const check& c, F&& f) {
  const limiter_spec& own = *c.limiter;
  const std::string_view subject = c.subject.view();
  // A cool-down is started at its own tier only.
  for (std::size_t tier = cools_down(c) ? own.tiers.size() - 1 : 0; tier < own.tiers.size();
       ++tier) {
    f(own, subject, units_of(c, tier), tier);
  }
  for (const term& t : c.further()) {
    for (std::size_t tier = 0; tier < t.limiter->tiers.size(); ++tier) {
      f(*t.limiter, t.subject.view(), t.units, tier);
    }
  }
}

/// True if the caller gets the decision of a failure policy in place of a store's failure.
bool has_failure_policy(const check& c) noexcept;

std::uint64_t origin_of_joint(const check& c) noexcept;

/// receipt::origin: a hash of the check's limiters, with their policies and subjects, in order. The
/// gate of an enter is left out.
inline std::uint64_t origin_of(const check& c) noexcept {
  return c.further().empty() ? c.limiter->origin_of(subject_hash(c)) : origin_of_joint(c);
}

/// What a store needs to give units back; empty if the check does not settle.
policies::tickets tickets_of(const check& c);

/// Until when the marker of the decision's receipt is kept: until its units count no longer. The
/// grace is added as for states, because the clock may step back to a time at which they count.
inline policies::instant marker_needed_until(const decision& d) noexcept {
  return (d.decided_at + std::max(d.reset_after, std::chrono::microseconds{1}))
             .time_since_epoch()
             .count() +
         policies::grace;
}

/// True if the check touches one key only.
inline bool is_single(const check& c) noexcept {
  return c.further().empty() && c.limiter->tiers.size() == 1;
}

}  // namespace weir::detail
