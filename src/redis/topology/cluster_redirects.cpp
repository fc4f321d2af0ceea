// What nodes tell the core of a Redis Cluster: redirects, maps, and the state of their connections.
#include <algorithm>
#include <utility>

#include "check/give_back.hpp"
#include "link/admission.hpp"
#include "redis/resp/error_reply.hpp"
#include "redis/topology/cluster_core.hpp"

namespace weir::redis {

using detail::check;
using detail::check_list;
using detail::cluster_route;

namespace {

/// While a slot moves, checks with several keys wait so long before they are sent again.
constexpr std::chrono::milliseconds pause_of_migration{25};
/// When a slot has moved, nodes may name each other for a moment. The first redirects are followed
/// at once, later MOVEDs after a pause that doubles. ASK is followed without a pause, because it
/// holds for the next command only.
constexpr unsigned immediate_redirects = 2;
constexpr std::chrono::milliseconds pause_of_redirect{10};
constexpr unsigned most_redirect_doublings = 5;
/// While no node serves a slot: the ceiling of the first pause, and how often it doubles.
constexpr std::chrono::milliseconds first_pause{25};
constexpr std::uint8_t most_doublings = 4;

cluster_core::time::duration pause_after_redirects(unsigned count) {
  return pause_of_redirect *
         (1 << std::min(count - immediate_redirects - 1, most_redirect_doublings));
}

}  // namespace

void cluster_core::on_node_event(index node, const cluster_node& link, time now) {
  if (members_[node].link.get() != &link) return;  // it has left
  std::vector<slot_number> slots;                  // of checks that come back
  connection_core::link_news news{};
  members_[node].link->use([&](connection_core& core, time) { news = core.take_news(); });
  if (news.is_new) {
    members_[node].is_ready = news.is_ready;
    members_[node].is_useless = news.is_lasting;
    if (!news.is_ready) lost(node, news, now, slots);
  }
  std::optional<pipeline::map_answer> answered;
  members_[node].link->use([&](connection_core& core, time) { answered = core.line().take_map(); });
  if (answered) map_came(*answered, node, now);

  redirected_.clear();
  members_[node].link->use(
      [this](connection_core& core, time) { core.line().take_redirected(redirected_); });
  for (pipeline::redirected_checks& r : redirected_) {
    if (r.checks.empty()) continue;
    slots.push_back(r.checks.front().route.slot());
    redirect(r, node, now);
  }
  // The line may be long: search it only if it may have checks of held slots.
  if (awaited_ > 0) pull_held(node, slots);
  for (const slot_number s : slots) {
    // These checks came back from a node that was asked with ASKING; the slot's other checks are at
    // its current node.
    const slot& at = slots_[s];
    if (!at.is_held || at.pending == 0 || at.current_node == node) continue;
    pull(
        at.current_node, [s](const check& c) { return c.route.slot() == s; },
        [this](check& c) { hold(c, time::min()); });
  }
  for (const slot_number s : slots) release(s, now);
  members_[node].link->use([](connection_core& core, time) { core.line().proceed(); });
  sweep();
}

/// A node has no connection, or none yet. Its unsent checks wait for the next one, or for a map
/// that names another node. But checks that an ASK sent there go back, because the slot may not
/// move any more.
void cluster_core::lost(index node, const connection_core::link_news& news, time now,
                        std::vector<slot_number>& slots) {
  trouble_ = news.trouble;
  if (search_.failed(node, now)) round_failed();
  search_.want(now);
  const auto asks = [](const check& c) { return c.route.is_asking(); };
  pull(node, asks, [&](check& c) {
    --c.route.redirects;  // no node has redirected it in vain
    c.ec = news.trouble;  // for the caller, if the deadline comes first
    slots.push_back(c.route.slot());
    hold(c, pause_of_down(slots.back(), now));
  });
}

/// When the next check may be sent to a slot that no node serves. Each slot has its own pauses,
/// because other slots may be served, or many may be down at once.
cluster_core::time cluster_core::pause_of_down(slot_number s, time now) {
  // Calls that were under way together share a pause.
  const auto held = held_.find(s);
  if (held != held_.end() && held->second.not_before > now) return held->second.not_before;
  std::uint8_t& before = downs_[s];
  const time::duration ceiling = first_pause * (1 << before);
  before = std::min<std::uint8_t>(before + 1, most_doublings);
  return now + first_pause / 2 +
         time::duration(std::uniform_int_distribution<time::rep>(0, ceiling.count())(random_));
}

/// Takes unsent checks back from a node, and passes them to `keep`.
template <class F, class Keep>
void cluster_core::pull(index from, F&& which, Keep&& keep) {
  if (members_[from].link == nullptr) return;
  check_list unsent;
  members_[from].link->use(
      [&](connection_core& core, time) { core.line().take_unsent(which, unsent); });
  while (!unsent.empty()) {
    check& c = unsent.front();
    unsent.pop_front();
    leave(c);
    keep(c);
  }
}

/// Takes the unsent checks of held slots back from a node, and notes their slots.
void cluster_core::pull_held(index from, std::vector<slot_number>& slots) {
  pull(
      from, [this](const check& c) { return slots_[c.route.slot()].is_held; },
      [&](check& c) {
        slots.push_back(c.route.slot());
        hold(c, time::min());
      });
}

/// Decides where checks of one slot go that a node did not run.
void cluster_core::redirect(pipeline::redirected_checks& r, index from, time now) {
  using kind = redirection::kind;
  const slot_number s = r.checks.front().route.slot();
  index to = none;
  if (r.why.what == kind::moved || r.why.what == kind::ask) {
    redis_address address = std::move(r.why.to);
    if (address.host.empty()) address.host = members_[from].at.host;
    to = members_.at(address);
    if (to != none) members_[to].is_master = true;
    if (to == none || to == from) {
      r.why.what = kind::lost;
      for (check& c : r.checks) c.ec = error::too_many_redirects;
    }
  }
  // Both wait for another map.
  const bool is_down = r.why.what == kind::down || r.why.what == kind::lost;
  // Only the node that serves the slot by the map can correct the map.
  index& owner = slots_[s].owner;
  if (r.why.what == kind::moved && (owner == from || owner == none)) owner = to;
  if (r.why.what == kind::moved || is_down) search_.want(now);
  const time later = is_down                         ? pause_of_down(s, now)
                     : r.why.what == kind::try_again ? now + pause_of_migration
                                                     : now;
  const error_code why = is_down ? r.checks.front().ec : error_code();
  if (r.why.is_of_all && !std::exchange(members_[from].is_down, true)) {
    members_[from].ask_again_at = now + options_.breaker_pause;
  }
  check_list asks;
  while (!r.checks.empty()) {
    check& c = r.checks.front();
    r.checks.pop_front();
    leave(c);
    cluster_route& route = c.route;
    time not_before = later;
    if (closed_ && !c.traits.gives_back) {
      finish(c, error::store_closed);
      continue;
    }
    // The importing node did not run it: the ASK does not count.
    const bool asked = route.is_asking();
    if (asked && r.why.what != kind::moved && r.why.what != kind::ask) --route.redirects;
    if (r.why.what == kind::try_again) {
      // The call had other keys, too. Alone, a check of one key does not get TRYAGAIN.
      if (detail::is_single(c) && !route.is_alone()) not_before = now;
      route.value |= cluster_route::alone;
    }
    // An ASK from a node to which an ASK had sent the check counts as MOVED: otherwise two nodes
    // could pass it back and forth without a pause.
    const bool moves = r.why.what == kind::moved || (r.why.what == kind::ask && asked);
    const bool asks_now = !moves && r.why.what == kind::ask && may_ask(c, to);
    if (moves || asks_now) {
      if (route.redirects < cluster_route::most_redirects_counted) ++route.redirects;
      if (route.redirects > immediate_redirects) {
        c.ec = error::too_many_redirects;  // for the caller, if the deadline comes first
        if (moves) not_before = now + pause_after_redirects(route.redirects);
      }
    }
    if (asks_now) {
      route.value |= cluster_route::asks;
      asks.push_back(c);
    } else {
      hold(c, not_before);
    }
  }
  if (slots_[s].is_held) held_[s].why = why;
  if (asks.empty()) return;
  asking& there = asking_.try_emplace(s, asking{to}).first->second;
  there.pending += static_cast<std::uint32_t>(asks.size());
  arrive(asks, to);
}

/// False if a held check has one of the check's keys and would be overtaken, or if checks of the
/// slot were sent behind ASKING to another node.
bool cluster_core::may_ask(const check& c, index at) const {
  const slot_number s = c.route.slot();
  if (const auto held = held_.find(s); held != held_.end()) {
    bool meets = false;
    each_key(c, [&](std::uint64_t key) { meets = meets || held->second.keys.contains(key); });
    if (meets) return false;
  }
  const auto found = asking_.find(s);
  return found == asking_.end() || found->second.node == at;
}

void cluster_core::map_came(pipeline::map_answer& a, index from, time now) {
  if (a.map != nullptr) {
    return apply(*a.map, now);
  }
  trouble_ = a.failure != error{} ? a.failure : error::cluster_down;
  members_[from].is_useless = a.failure != error{} && !is_passing(a.failure);
  if (search_.failed(from, now)) round_failed();
}

/// Called after a round without a map. If there was never one and no seed is useful, waiting does
/// not help.
void cluster_core::round_failed() {
  if (has_map_) return;
  is_lost_ = true;
  refusal_ = members_.has_useful_seed() ? error{} : trouble_;
  if (refusal_ != error{}) finish_held(refusal_, true);
}

void cluster_core::apply(const slot_map& map, time now) {
  has_map_ = true;
  is_lost_ = false;
  trouble_ = refusal_ = error{};
  const std::vector<index> masters = members_.set_masters(map.masters);
  std::vector<bool> moves(members_.size());
  bool is_new = false;
  for (std::size_t i = 0; i < slot_count; ++i) {
    slot& at = slots_[i];
    const index owner = map.owner[i] == slot_map::none ? none : masters[map.owner[i]];
    if (at.owner != owner) {
      is_new = true;
      if (at.is_held) held_[static_cast<slot_number>(i)].why = {};
      at.owner = owner;
    }
    if (at.pending == 0 || at.current_node == at.owner) continue;
    // A slot that no node serves stays with its node while that is a master: all its checks may be
    // behind ASKING at another node.
    if (at.owner == none && members_[at.current_node].is_master) continue;
    hold(static_cast<slot_number>(i));
    moves[at.current_node] = true;
  }
  search_.found(now, is_new);
  std::vector<slot_number> slots;
  for (index i = 0; i < moves.size(); ++i) {
    if (moves[i]) pull_held(i, slots);
  }
  for (auto it = held_.begin(); it != held_.end();) {
    const slot_number s = it->first;
    ++it;  // release() may erase the slot
    release(s, now);
  }
  must_sweep_ = true;
}

void cluster_core::ended(index node, const cluster_node& link) {
  if (members_[node].link.get() == &link) members_[node].link.reset();
}

}  // namespace weir::redis
