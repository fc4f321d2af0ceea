#include "redis/topology/map_search.hpp"

#include <algorithm>

namespace weir::redis {

map_search::map_search(cluster_members& members, const redis_options& options, std::uint32_t seed)
    : members_(members), backoff_(options.backoff_min, options.backoff_max, seed), random_(seed) {}

void map_search::want(time now, std::chrono::milliseconds age) {
  if (is_asking_ || is_stopped_) return;
  if (age.count() > 0 && now < found_at_ + age) return;
  if (now >= not_before_) {
    begin_round(now);
  } else {
    wakeup_ = std::min(wakeup_, not_before_);
  }
}

/// Collects the nodes in a random order: clients that lost the same node must not all ask one.
void map_search::begin_round(time now) {
  is_asking_ = true;
  round_.clear();
  std::vector<index> ready, seeds, others;
  for (index i = 0; i < members_.size(); ++i) {
    const cluster_members::member& m = members_[i];
    if (m.is_master && m.is_ready) {
      ready.push_back(i);
    } else if (m.is_seed) {
      seeds.push_back(i);
    } else if (m.is_master) {
      others.push_back(i);
    }
  }
  for (std::vector<index>* some : {&others, &seeds, &ready}) {
    std::shuffle(some->begin(), some->end(), random_);
    if (some != &seeds && some->size() > most_of_a_kind) some->resize(most_of_a_kind);
    round_.insert(round_.end(), some->begin(), some->end());
  }
  ask_next(now);
}

bool map_search::ask_next(time now) {
  if (round_.empty()) {
    is_asking_ = false;
    not_before_ = wakeup_ = now + backoff_.next();
    return true;
  }
  const index next = round_.back();
  round_.pop_back();
  members_[next].is_asked = true;
  members_.link(next).use([](connection_core& core, time) { core.line().ask_map(); });
  wakeup_ = now + next_node_after;
  return false;
}

void map_search::found(time now, bool is_new) {
  for (index i = 0; i < members_.size(); ++i) members_[i].is_asked = false;
  round_.clear();
  is_asking_ = false;
  const bool is_calm = now >= found_at_ + interval / 2;  // nothing has wanted a map for so long
  found_at_ = now;
  not_before_ = now + shortest_interval;
  if (is_new || is_calm) {
    backoff_.reset();
  } else {
    // While a cluster is down, each check that it refuses wants a map.
    not_before_ = std::max(not_before_, now + std::min(backoff_.next(), longest_interval));
  }
  if (!is_stopped_) wakeup_ = now + interval;
}

bool map_search::failed(index from, time now) {
  if (!members_[from].is_asked) return false;
  members_[from].is_asked = false;
  if (!is_asking_ || is_stopped_) return false;
  return ask_next(now);
}

bool map_search::on_time(time now) {
  if (is_stopped_ || now < wakeup_) return false;
  if (is_asking_) return ask_next(now);
  begin_round(now);
  return false;
}

}  // namespace weir::redis
