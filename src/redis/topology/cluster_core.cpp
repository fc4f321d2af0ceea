#include "redis/topology/cluster_core.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "check/give_back.hpp"
#include "link/admission.hpp"
#include "redis/slot.hpp"

namespace weir::redis {

using detail::check;
using detail::check_list;
using detail::check_stage;
using detail::cluster_route;

static_assert(slot_count == cluster_route::asks);  // the flags of a route lie above the slot

namespace {

/// A missing reply may mean that the node is no master any more.
constexpr std::chrono::seconds trusted{1};

}  // namespace

cluster_core::cluster_core(const redis_options& options, cluster_members::make_node make,
                           std::uint32_t seed)
    : options_(options),
      members_(options.cluster_seeds, std::move(make)),
      search_(members_, options, seed),
      slots_(slot_count),
      random_(seed) {}

// ---- new checks, and finished ones

void cluster_core::finish(check& c, error e) {
  if (e != error{}) c.ec = e;
  c.line.unlink();
  c.flight.stage = check_stage::done;
  done_.push_back(c);
}

std::shared_ptr<cluster_node> cluster_core::submit(check& c, time now) {
  const slot_number s = slot_of(c, scratch_);
  c.route = {.value = s};
  slot& at = slots_[s];
  c.flight.order = at.next_order++;
  if (closed_ && (ended_ || !c.traits.gives_back)) {
    finish(c, error::store_closed);
    return nullptr;
  }
  const index node = at.pending == 0 ? at.owner : at.current_node;
  if (node != none && members_[node].is_down && may_end_at_once(c) && !may_try(node, now)) {
    finish(c, error::cluster_down);
    return nullptr;
  }
  if (!at.is_held) {
    at.current_node = node;
    if (node != none) {
      cluster_members::member& m = members_[node];
      members_.link(node);
      ++at.pending;
      ++m.pending;
      return m.link;
    }
  }
  hold_new(c, now);
  return nullptr;
}

/// True once in breaker_pause: for a call that finds out whether the cluster is still down.
bool cluster_core::may_try(index node, time now) {
  if (options_.breaker_failures == 0) return true;
  if (now < members_[node].ask_again_at) return false;
  members_[node].ask_again_at = now + options_.breaker_pause;
  return true;
}

void cluster_core::hold_new(check& c, time now) {
  if (refusal_ != error{}) return finish(c, refusal_);
  if (is_lost_ && trouble_ != error{} && may_end_at_once(c)) return finish(c, trouble_);
  const std::size_t weight = weight_of(c);
  const bool fits = held_weight_ == 0 || held_weight_ + weight <= options_.max_pending ||
                    is_beyond_bound(c);
  if (!fits) return finish(c, error::overloaded);
  c.flight.deadline = now + timeout_of(c, options_.timeout);
  const slot_number s = c.route.slot();
  hold(c, time::min());
  if (slots_[s].owner == none) search_.want(now);
}

cluster_core::index cluster_core::node_of(const check& c) const {
  const slot_number s = c.route.slot();
  if (!c.route.is_asking()) return slots_[s].current_node;
  const auto found = asking_.find(s);
  return found == asking_.end() ? none : found->second.node;
}

void cluster_core::cancel(check& c, detail::cancel_scope scope) {
  if (c.route.is_held) {
    unhold(c);
    c.ec = boost::asio::error::operation_aborted;
    return finish(c, error{});
  }
  const index i = node_of(c);
  if (i == none || members_[i].link == nullptr) return;
  members_[i].link->use([&](connection_core& core, time) {
    if (c.flight.stage != check_stage::done) core.cancel(c, scope);
  });
}

/// Notes that the check has left its node.
void cluster_core::leave(const check& c) {
  const slot_number s = c.route.slot();
  const index i = node_of(c);
  if (c.route.is_asking()) {
    const auto found = asking_.find(s);
    if (--found->second.pending == 0) asking_.erase(found);
  }
  if (--slots_[s].pending == 0 && slots_[s].is_held) --awaited_;
  cluster_members::member& m = members_[i];
  if (--m.pending == 0 && !m.is_master) must_sweep_ = true;
}

void cluster_core::finished(const check_list& done, time now) {
  bool silent = false;
  for (const check& c : done) {
    if (c.flight.is_stand_in) continue;  // the node counts it, the cluster does not
    if (!c.ec) {
      if (!downs_.empty()) downs_.erase(c.route.slot());
      members_[node_of(c)].is_down = false;
    }
    silent = silent || c.ec == error::no_reply;
    leave(c);
    release(c.route.slot(), now);
  }
  if (silent) search_.want(now, trusted);
  sweep();
}

void cluster_core::sweep() {
  if (std::exchange(must_sweep_, false)) members_.sweep();
}

// ---- held checks

cluster_core::held_slot& cluster_core::hold(slot_number s) {
  held_slot& h = held_[s];
  h.number = s;
  if (!std::exchange(slots_[s].is_held, true) && slots_[s].pending > 0) ++awaited_;
  return h;
}

/// Puts the check among those of its slot, in the order in which they were made.
void cluster_core::hold(check& c, time not_before) {
  if (ended_) return finish(c, error::store_closed);
  c.flight.stage = check_stage::waiting;
  c.route.is_held = true;
  c.route.value &= static_cast<std::uint16_t>(~cluster_route::asks);
  held_slot& h = hold(c.route.slot());
  h.not_before = std::max(h.not_before, not_before);
  const auto is_earlier = [&c](const check& other) {
    return static_cast<std::int32_t>(other.flight.order - c.flight.order) <= 0;
  };
  // From both ends at once: a new check belongs behind all others, and one that comes back often
  // belongs in front of thousands that were never sent.
  auto first = h.checks.begin(), place = h.checks.end();
  while (first != place && !is_earlier(*std::prev(place))) {
    if (!is_earlier(*first)) {
      place = first;
      break;
    }
    ++first;
    --place;
  }
  h.checks.insert(place, c);
  note_keys(h, c);
  wheel_.add(c);
  held_weight_ += weight_of(c);
}

/// Notes the keys of a held check. Forgets the keys of checks that have ended when they may be half
/// of all: while no node serves a slot, it may be held for long, with ever new subjects.
void cluster_core::note_keys(held_slot& h, const check& c) {
  const auto note = [&h](std::uint64_t key) { h.keys.insert(key); };
  each_key(c, note);
  if (h.keys.size() < h.sweep_at) return;
  h.keys.clear();
  for (const check& one : h.checks) each_key(one, note);
  h.sweep_at = 2 * h.keys.size() + 64;
}

void cluster_core::unhold(check& c) {
  c.line.unlink();
  detail::deadline_wheel::remove(c);
  c.route.is_held = false;
  held_weight_ -= weight_of(c);
}

/// Sends the slot's held checks to the node that serves it, unless a check of the slot is still at
/// a node.
void cluster_core::release(slot_number s, time now) {
  if (!slots_[s].is_held || slots_[s].pending > 0) return;
  const auto found = held_.find(s);
  held_slot& h = found->second;
  if (!h.checks.empty()) {
    if (slots_[s].owner == none) return search_.want(now);
    if (h.not_before > now) return releases_.put(h, h.not_before);
  }
  check_list ready;
  while (!h.checks.empty()) {
    check& c = h.checks.front();
    unhold(c);
    ready.push_back(c);
  }
  held_.erase(found);
  slots_[s].is_held = false;
  if (ready.empty()) return;
  slots_[s].current_node = slots_[s].owner;
  arrive(ready, slots_[s].owner);
}

/// Sends the checks to that node.
void cluster_core::arrive(check_list& checks, index at) {
  if (ended_) {
    while (!checks.empty()) finish(checks.front(), error::store_closed);
    return;
  }
  for (check& c : checks) {
    slot& s = slots_[c.route.slot()];
    if (s.pending++ == 0 && s.is_held) ++awaited_;
    ++members_[at].pending;
  }
  members_.link(at).use(
      [&](connection_core& core, time now) { core.line().resume(std::move(checks), now); });
}

void cluster_core::finish_held(error e, bool all) {
  for (auto it = held_.begin(); it != held_.end();) {
    check_list& checks = it->second.checks;
    for (auto each = checks.begin(); each != checks.end();) {
      check& c = *each++;
      if (!all && c.traits.gives_back) continue;
      unhold(c);
      finish(c, e);
    }
    const bool is_over = checks.empty() && slots_[it->first].pending == 0;
    if (is_over) slots_[it->first].is_held = false;
    it = is_over ? held_.erase(it) : std::next(it);
  }
}

// ---- time, and the end

cluster_core::time cluster_core::wakeup() const noexcept {
  if (ended_) return time::max();
  return std::min({wheel_.next(), search_.wakeup(), releases_.next(), give_up_.at});
}

void cluster_core::on_time(time now) {
  const time::duration late = detail::lateness(wakeup(), now);
  wheel_.expire(now, [=, this](check& c) {
    if (put_off(c, now, late, options_.timeout)) return wheel_.add(c);
    const slot_number s = c.route.slot();
    unhold(c);
    if (!c.ec) c.ec = held_.at(s).why;
    if (!c.ec) {
      c.ec = !has_map_ && trouble_ != error{}      ? trouble_
             : has_map_ && slots_[s].owner == none ? error::cluster_down
                                                   : error::timed_out;
    }
    finish(c, error{});
    // Later, after all expired checks: release() sends the slot's other checks to their node.
    releases_.put(held_.at(s), now);
  });
  if (ended_) return;
  while (held_slot* const h = releases_.first_due(now)) {
    releases_.put(*h, time::max());
    release(h->number, now);
  }
  if (search_.on_time(now)) round_failed();
  if (give_up_.is_over(now, late, options_.timeout)) end();
}

bool cluster_core::close(time now) {
  if (std::exchange(closed_, true)) return false;
  search_.stop();
  finish_held(error::store_closed, false);
  give_up_ = {now + options_.timeout};
  return true;
}

void cluster_core::end() {
  ended_ = true;
  search_.stop();
  finish_held(error::store_closed, true);
}

std::vector<std::shared_ptr<cluster_node>> cluster_core::links() const {
  std::vector<std::shared_ptr<cluster_node>> all;
  for (index i = 0; i < members_.size(); ++i) {
    if (members_[i].link != nullptr) all.push_back(members_[i].link);
  }
  return all;
}

check_list cluster_core::take_done() {
  check_list taken;
  taken.swap(done_);
  return taken;
}

check_list cluster_core::abandon(std::vector<std::shared_ptr<cluster_node>>& nodes) {
  closed_ = true;
  end();
  nodes = members_.release();
  return take_done();
}

}  // namespace weir::redis
