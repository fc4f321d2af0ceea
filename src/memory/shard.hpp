#pragma once

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "policy/joint.hpp"

namespace weir::memory {

struct subject_hash {
  using is_transparent = void;
  using is_avalanching = void;  // std::hash of the standard library mixes all bits
  std::size_t operator()(std::string_view key) const noexcept {
    return std::hash<std::string_view>{}(key);
  }
};

/// A bounded map from keys to policy states, with its own lock. What no longer matters is dropped as other keys are
/// checked; what still counts is never forgotten. The clock is read under the lock: a check never comes with a time before
/// that of the one it follows.
class shard {
 public:
  explicit shard(std::size_t max_subjects) : max_(max_subjects) {}

  /// error::store_full, and no answer, if the key is new and there is no room.
  template <class Clock>
  error_code record(const policies::kernel& kernel, std::string_view key, const Clock& clock,
                    policies::units cost, decision& answer) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    auto found = subjects_.find(key);
    if (found == subjects_.end()) {
      if (subjects_.size() >= max_ && !make_room(now)) return error::store_full;
      found = subjects_.try_emplace(std::string(key)).first;
    }
    subject& entry = found->second;
    std::visit(
        [&](const auto& k) {
          auto& s = policies::state_for(k, entry.state);
          answer = k.record(s, now, cost);
          entry.matters_until = k.matters_until(s);
        },
        kernel);
    if (++checks_since_sweep_ > subjects_.size() + 64) sweep(now);
    return {};
  }

  /// One of several keys that are asked together.
  struct place {
    const policies::kernel* kernel;
    std::string key;
    policies::units cost;
  };

  /// Counts in all of them or in none.
  template <class Clock>
  error_code record_all(std::span<const place> places, const Clock& clock, decision& answer) {
    return change_all(places, clock, [&](std::span<const tier> tiers, policies::instant now) {
      answer = policies::record_all(tiers, now);
    });
  }

  /// Counts in all of them at their common turn.
  template <class Clock>
  error_code book_all(std::span<const place> places, const Clock& clock, policies::span max_wait,
                      decision& answer) {
    return change_all(places, clock, [&](std::span<const tier> tiers, policies::instant now) {
      answer = policies::book_all(tiers, now, max_wait);
    });
  }

  template <class Clock>
  error_code give_back_all(std::span<const place> places, const Clock& clock,
                           const policies::ticket& ticket) {
    return change_all(places, clock, [&](std::span<const tier> tiers, policies::instant now) {
      policies::give_back_all(tiers, now, ticket);
    });
  }

  /// Of what was counted in all of them: takes `cost` back, or charges it; once. The last place is where that is
  /// remembered, until `remember` at the least.
  template <class Clock>
  error_code settle_all(std::span<const place> places, const Clock& clock,
                        const policies::ticket& ticket, bool charges, policies::instant remember,
                        decision& answer) {
    return change_all(places, clock, [&](std::span<const tier> all, policies::instant now) {
      const auto tiers = all.first(all.size() - 1);
      auto& done = std::get<policies::hold::state>(*all.back().state);
      const bool is_first = done.until <= now;
      if (is_first) {
        constexpr policies::span minute = 60'000'000;  // for those who try again
        done.until = std::max(remember, now + minute);
        if (charges) {
          policies::charge_all(tiers, now);
        } else if (tiers.front().cost > 0) {
          policies::give_back_all(tiers, now, ticket);
        }
      }
      answer = policies::settled(tiers, now, is_first);
    });
  }

  /// Lowers what is left in each to its place's cost.
  template <class Clock>
  error_code lower_all(std::span<const place> places, const Clock& clock, decision& answer) {
    return change_all(places, clock, [&](std::span<const tier> tiers, policies::instant now) {
      policies::lower_all(tiers, now);
      answer = policies::settled(tiers, now, true);
    });
  }

  using tier = policies::tier<policies::any_state>;

 private:
  /// Calls f(tiers, now).
  template <class Clock, class F>
  error_code change_all(std::span<const place> places, const Clock& clock, F&& f) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    // Room for all of them before the first goes in: making it may drop what no longer matters, theirs included.
    if (subjects_.size() + missing(places) > max_) {
      make_room(now);
      if (subjects_.size() + missing(places) > max_) return error::store_full;
    }
    for (const place& p : places) subjects_.try_emplace(p.key);
    // Looked up once all are there: inserting moves the others.
    std::array<policies::tier<policies::any_state>, policies::max_tiers + 1> tiers;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const place& p = places[i];
      tiers[i] = {p.kernel, &subjects_.find(p.key)->second.state, p.cost};
      fit(*tiers[i].state, *p.kernel);
    }
    f({tiers.data(), places.size()}, now);
    for (const place& p : places) {
      subject& entry = subjects_.find(p.key)->second;
      entry.matters_until = matters_until(entry.state, *p.kernel);
    }
    if (++checks_since_sweep_ > subjects_.size() + 64) sweep(now);
    return {};
  }

 public:
  template <class Clock>
  decision fetch_all(std::span<const place> places, const Clock& clock) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    std::array<policies::any_state, policies::max_tiers> states;
    std::array<policies::tier<policies::any_state>, policies::max_tiers> tiers;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const place& p = places[i];
      const auto found = subjects_.find(p.key);
      // A log may be long: what is there is looked at in its place.
      policies::any_state& state = found != subjects_.end() ? found->second.state : states[i];
      fit(state, *p.kernel);
      tiers[i] = {p.kernel, &state, p.cost};
    }
    return policies::fetch_all<policies::any_state>({tiers.data(), places.size()}, now);
  }

  template <class Clock>
  decision fetch(const policies::kernel& kernel, std::string_view key, const Clock& clock,
                 policies::units cost) {
    const std::lock_guard lock(mutex_);
    const policies::instant now = clock();
    const auto found = subjects_.find(key);
    return std::visit(
        [&](const auto& k) {
          using state_type = typename std::decay_t<decltype(k)>::state;
          const auto* s = found == subjects_.end() ? nullptr
                                                   : std::get_if<state_type>(&found->second.state);
          return k.fetch(s != nullptr ? *s : state_type{}, now, cost);
        },
        kernel);
  }

  void reset(std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = subjects_.find(key);
    if (found != subjects_.end()) subjects_.erase(found);
  }

 private:
  struct subject {
    policies::any_state state;
    policies::instant matters_until = 0;
  };

  std::size_t missing(std::span<const place> places) const {
    return static_cast<std::size_t>(std::count_if(
        places.begin(), places.end(), [&](const place& p) { return !subjects_.contains(p.key); }));
  }

  static void fit(policies::any_state& state, const policies::kernel& kernel) {
    std::visit([&](const auto& k) { policies::state_for(k, state); }, kernel);
  }
  static policies::instant matters_until(policies::any_state& state, const policies::kernel& kernel) {
    return std::visit([&](const auto& k) { return k.matters_until(policies::state_for(k, state)); },
                      kernel);
  }

  /// A sweep looks at every subject, so a full shard allows itself one a millisecond.
  bool make_room(policies::instant now) {
    if (now >= last_sweep_ && now - last_sweep_ < 1000) return false;
    sweep(now);
    return subjects_.size() < max_;
  }

  /// Drops what no longer matters. After as many checks as there are subjects, it costs each check a constant.
  void sweep(policies::instant now) {
    boost::unordered::erase_if(subjects_,
                               [&](const auto& s) { return s.second.matters_until <= now; });
    if (subjects_.size() < subjects_.bucket_count() / 8) subjects_.rehash(0);
    checks_since_sweep_ = 0;
    last_sweep_ = now;
  }

  std::mutex mutex_;
  boost::unordered_flat_map<std::string, subject, subject_hash, std::equal_to<>> subjects_;
  const std::size_t max_;
  std::size_t checks_since_sweep_ = 0;
  policies::instant last_sweep_ = -1000;
};

}  // namespace weir::memory
