#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/light_mutex.hpp"
#include "memory/segmented_table.hpp"
#include "memory/settled_marks.hpp"
#include "memory/subject.hpp"
#include "policy/tier_set.hpp"

namespace weir::memory {

class shard;

/// The shards of one store, and what they share.
struct shard_set {
  /// Makes `wanted` shards, rounded up to a power of two, or fewer if they would be small. Together
  /// they hold about `max_subjects`, and `max_settled` markers of settled decisions.
  shard_set(std::size_t max_subjects, std::size_t wanted, std::size_t max_settled = 0);

  shard& of(std::uint64_t hash) noexcept { return *shards[hash & (shards.size() - 1)]; }

  settled_marks::shared_room settled;
  std::vector<std::unique_ptr<shard>> shards;  // their number is a power of two
};

/// A bounded map from keys to policy states, with its own lock. Checks of other keys, also in other
/// shards, drop states that no longer matter; a state that still counts is never dropped. The clock
/// is read under the lock, so the times of checks never go back by a race.
///
/// If the clock was ahead while the shard filled, its subjects end only when the clock gets there
/// again. A full shard lowers such ends to as far ahead of the clock as an end was ever written;
/// the states stay as they are.
class shard {
 public:
  using tier = policies::tier<policies::any_state>;

  shard(std::size_t max_subjects, shard_set& all)
      : max_(std::min<std::size_t>(max_subjects, 4'000'000'000)),
        all_(all),
        next_(all.shards.size()),
        subjects_(max_),
        settled_(all.settled) {}

  /// `answer` is empty. Returns error::store_full, without an answer, if the key is new and the
  /// shard is full.
  template <class Clock>
  error_code record(const policies::kernel& kernel, std::string_view key, const Clock& clock,
                    policies::units cost, decision& answer) {
    const std::uint32_t hash = hash_of(key);
    const std::lock_guard lock(mutex_);
    subjects_.prefetch(hash);
    const policies::instant now = clock();  // while the slot is being loaded
    subject* found = find(key, hash);
    std::int32_t weight = 1;
    if (found == nullptr) {
      if (subjects_.size() >= max_ && !make_room(now, 1)) return error::store_full;
      found = &add(key, hash);
      weight = weight_of_new;
    }
    std::visit(
        [&](const auto& k) {
          typename std::decay_t<decltype(k)>::state room;
          auto& s = found->state.open(room);
          policies::record_into(answer, k, s, now, cost);
          note_end(*found, k, s, now);
          found->state.put(s);
        },
        kernel);
    tidy_after(weight, now);
    return {};
  }

  /// One key of a check that has several.
  struct tier_key {
    const policies::kernel* kernel;
    std::string key;
    policies::units cost;
  };

  /// A settlement: the receipt's id, and until when its marker must be kept at least.
  struct settlement {
    std::uint64_t id;
    policies::instant remember;
  };

  /// As change_all(), with f(tiers, now, is_first), where is_first is true once per id. Returns
  /// error::settlements_full, without a call of f, if there is no room for the marker.
  template <class Clock, class F>
  error_code settle_all(std::span<const tier_key> keys, const Clock& clock, const settlement& what,
                        F&& f) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    const bool is_first = !settled_.has(what.id, now);
    if (is_first && !remember(what, now)) return error::settlements_full;
    bool has_begun = false;
    const auto settle = [&](std::span<const tier> tiers, policies::instant) {
      has_begun = true;
      f(tiers, now, is_first);
    };
    try {
      const error_code ec = change_at(now, keys, settle);
      if (ec && is_first) settled_.erase(what.id);
      if (is_first) tidy_after(weight_of_new, now);
      return ec;
    } catch (...) {
      // If nothing was settled, the caller may repeat it. Several tiers may be settled in part.
      if (is_first && (!has_begun || keys.size() == 1)) settled_.erase(what.id);
      throw;
    }
  }

  void reset(std::span<const tier_key> keys) {
    const std::lock_guard lock(mutex_);
    for (const tier_key& p : keys) erase(p.key);
  }

  /// Calls f(tiers, now), which must not change the states.
  template <class Clock, class F>
  void look_at(std::span<const tier_key> keys, const Clock& clock, F&& f) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    std::array<policies::any_state, policies::max_tiers> rooms;
    std::array<tier, policies::max_tiers> tiers;
    subject_state none;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const tier_key& p = keys[i];
      subject* const found = find(p.key, hash_of(p.key));
      // A reference, because copying a long log would be slow.
      subject_state& state = found != nullptr ? found->state : none;
      tiers[i] = {p.kernel, &state.open(rooms[i], *p.kernel), p.cost};
    }
    f(std::span<const tier>(tiers.data(), keys.size()), now);
    tidy_after(1, now);
  }

  /// Calls f(tiers, now).
  template <class Clock, class F>
  error_code change_all(std::span<const tier_key> keys, const Clock& clock, F&& f) {
    const std::lock_guard lock(mutex_);
    return change_at(clock(), keys, f);
  }

 private:
  /// The lock is held. Opens the states, calls f(tiers, now), and puts the states back.
  template <class F>
  error_code change_at(policies::instant now, std::span<const tier_key> keys, F&& f) {
    std::array<std::uint32_t, policies::max_tiers> hashes;
    for (std::size_t i = 0; i < keys.size(); ++i) hashes[i] = hash_of(keys[i].key);
    std::array<subject*, policies::max_tiers> found;
    const auto missing = [&] {
      std::size_t count = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        found[i] = find(keys[i].key, hashes[i]);
        count += found[i] == nullptr ? 1 : 0;
      }
      return count;
    };
    // Makes room for all new subjects before adding the first, because make_room() may drop
    // subjects, also those of this call.
    const std::size_t wanted = missing();
    if (subjects_.size() + wanted > max_) {
      make_room(now, wanted);
      if (subjects_.size() + missing() > max_) return error::store_full;
    }
    for (std::size_t i = 0; wanted > 0 && i < keys.size(); ++i) {
      // An earlier tier may have added this key: limiters of one subject share a cool-down.
      if (find(keys[i].key, hashes[i]) == nullptr) add(keys[i].key, hashes[i]);
    }
    if (wanted > 0) missing();  // adding has moved others
    const auto first_of = [&](std::size_t i) {
      return static_cast<std::size_t>(std::ranges::find(found, found[i]) - found.begin());
    };
    std::array<policies::any_state, policies::max_tiers> rooms;
    std::array<tier, policies::max_tiers> tiers;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const tier_key& p = keys[i];
      const std::size_t first = first_of(i);
      policies::any_state* const state = first < i ? tiers[first].state
                                                   : &found[i]->state.open(rooms[i], *p.kernel);
      tiers[i] = {p.kernel, state, p.cost};
    }
    f(std::span<const tier>(tiers.data(), keys.size()), now);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::visit(
          [&](const auto& k) {
            note_end(*found[i], k, policies::state_for(k, *tiers[i].state), now);
          },
          *keys[i].kernel);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (first_of(i) == i) found[i]->state.put(*tiers[i].state);
    }
    tidy_after(1 + weight_of_new * static_cast<std::int32_t>(wanted), now);
    return {};
  }

  void erase(std::string_view key) noexcept {
    if (const subject* found = find(key, hash_of(key))) subjects_.erase(*found);
  }
  subject* find(std::string_view key, std::uint32_t hash) noexcept {
    return subjects_.find(hash, [&](const subject& s) { return s.key.view() == key; });
  }
  subject& add(std::string_view key, std::uint32_t hash) {
    subject fresh;
    fresh.key = subject::key_type(key, hash);
    return subjects_.add(std::move(fresh));
  }

  /// Called after each change of a state.
  template <class Kernel>
  void note_end(subject& of, const Kernel& k, const typename Kernel::state& s,
                policies::instant now) noexcept {
    const policies::instant ends = k.matters_until(s);
    horizon_ = policies::written_ahead(k, s, ends, now, horizon_);
    if (now > latest_) {
      latest_ = now;
      behind_since_ = never;
    }
    of.state.set_matters_until(policies::matters_until<Kernel>(s, ends, of.state.matters_until()));
  }

  /// Marks the receipt as settled; false if there is no room.
  bool remember(const settlement& what, policies::instant now) {
    const policies::instant until = std::max(what.remember, now + policies::shortest_marker_life);
    if (settled_.add(what.id, until)) return true;
    tidy_marks(now, looks_when_full, true);
    for (std::size_t i = 0; i < all_.shards.size(); ++i) tidy_elsewhere(now, true);
    return settled_.add(what.id, until);
  }

  static constexpr policies::span step_of_a_moment = 60'000'000;  // see may_lower()
  static constexpr policies::instant never = policies::max_exact;

  // The hand sees 32 slots per 64 checks. A check counts as 16 more for each subject or mark that
  // it adds: the hand sees eight slots for each, and always catches up.
  static constexpr std::size_t batch = 32;
  static constexpr std::int32_t checks_per_batch = 64, weight_of_new = 16;
  static constexpr std::size_t batch_when_tight = 256;  // three quarters of the bound are in use
  static constexpr std::size_t looks_when_full = 2048;

  /// Called after each check.
  void tidy_after(std::int32_t weight, policies::instant now) {
    if ((until_tidy_ -= weight) <= 0) tidy(now);
  }
  /// Also tidies the next shard, which may get no checks of its own. Runs again soon if there may
  /// be much more that is over.
  void tidy(policies::instant now) {
    const std::int32_t due = 1 - until_tidy_ / checks_per_batch;  // a joint check may add several
    const bool is_tight = subjects_.size() > max_ - max_ / 4;
    const std::size_t looks = is_tight ? batch_when_tight : batch;
    bool has_more = subjects_.tidy(now, static_cast<std::size_t>(due) * looks);
    has_more = tidy_marks(now, batch) || has_more;
    has_more = tidy_elsewhere(now) || has_more;
    until_tidy_ = has_more ? 1 : until_tidy_ + due * checks_per_batch;
  }

  /// True if ends far ahead of the clock may be lowered: not in the first minute in which the clock
  /// is behind the latest write, because it may have stepped back for a moment only.
  bool may_lower(policies::instant now) noexcept {
    if (now >= latest_) return true;
    behind_since_ = std::min(behind_since_, now);
    return now - behind_since_ >= step_of_a_moment;
  }

  /// `is_full`: markers get at most the life of one that is made now.
  bool tidy_marks(policies::instant now, std::size_t look_at, bool is_full = false) {
    const bool lowers = is_full && may_lower(now);
    return settled_.tidy(now, look_at,
                         lowers ? now + horizon_ + policies::shortest_marker_life : never);
  }

  /// Tidies the next shard if its lock is free. It must not wait for that lock while it holds its
  /// own: two shards could deadlock.
  bool tidy_elsewhere(policies::instant now, bool is_full_of_marks = false) {
    if (all_.shards.size() < 2) return false;
    if (next_ >= all_.shards.size()) next_ = 0;
    shard& other = *all_.shards[next_];
    bool has_more = false;
    if (&other != this) {
      if (const std::unique_lock lock(other.mutex_, std::try_to_lock); lock) {
        const bool more_subjects = other.subjects_.tidy(now, batch);
        has_more = other.tidy_marks(now, batch, is_full_of_marks) || more_subjects;
      }
    }
    if (!has_more) ++next_;
    return has_more;
  }

  /// Sees a bounded number of slots per call, because a full shard calls this for each new key.
  bool make_room(policies::instant now, std::size_t wanted) {
    const policies::instant last = may_lower(now) ? now + horizon_ : never;
    subjects_.tidy(now, looks_when_full, [&](subject& s) {
      s.state.set_matters_until(std::min(s.state.matters_until(), last));
    });
    return subjects_.size() + wanted <= max_;
  }

  detail::light_mutex mutex_;
  const std::size_t max_;
  shard_set& all_;
  std::size_t next_;  // the shard to tidy next
  std::int32_t until_tidy_ = checks_per_batch;
  policies::span horizon_ = 0;    // how far ahead of the clock an end was written, at most
  policies::instant latest_ = 0;  // of all writes
  policies::instant behind_since_ = never;  // since when the clock has been behind that
  segmented_table<subject> subjects_;
  settled_marks settled_;
};

inline shard_set::shard_set(std::size_t max_subjects, std::size_t wanted, std::size_t max_settled)
    : settled{.most = max_settled} {
  // The bound is divided among the shards. A small store gets fewer, so that an uneven distribution
  // wastes less of it.
  constexpr std::size_t smallest = 1024;
  const std::size_t count = std::min(
      std::bit_ceil(std::max<std::size_t>(1, wanted)),
      std::bit_floor(std::max<std::size_t>(1, max_subjects / smallest)));
  const std::size_t each = std::max<std::size_t>(1, (max_subjects + count - 1) / count);
  for (std::size_t i = 0; i < count; ++i) shards.push_back(std::make_unique<shard>(each, *this));
}

}  // namespace weir::memory
