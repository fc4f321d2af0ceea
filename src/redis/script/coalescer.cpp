#include "redis/script/coalescer.hpp"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <memory>

namespace weir::redis {

using detail::check;
using detail::for_each_limiter;
using detail::limiter_spec;

std::size_t coalescer::hash::operator()(const group_id& g) const noexcept {
  std::size_t seed = 0;
  boost::hash_combine(seed, g.limiter);
  boost::hash_combine(seed, g.units);
  boost::hash_combine(seed, static_cast<int>(g.kind) | g.slot << 8);
  boost::hash_combine(seed, g.further);
  boost::hash_combine(seed, g.max_wait);
  return seed;
}

namespace {

/// For reservations like `c`: the quota, lowered to whole calls if it holds at least one. A small
/// call for the rest would cost the server nearly as much as a full one. Other checks use the whole
/// quota: equal ones share a key, so their calls have no fixed size.
std::size_t whole_calls(std::size_t quota, const check& c) {
  if (!c.traits.waits) return quota;
  std::size_t tiers = 0, weight = 0;
  for_each_limiter(c, [&](const limiter_spec& l, std::string_view) {
    tiers += l.tiers.size();
    for (const policies::kernel& k : l.tiers) weight += call_size::turn_weight(k);
  });
  const std::size_t in_call = tiers * call_size::most_turns(weight);
  return quota < in_call ? quota : quota - quota % in_call;
}

key_table::id id_of(const limiter_spec& limiter, std::string_view subject) {
  return {limiter.resource_id, subject, detail::subject_hash(subject)};
}

/// True if equal checks become one key with a count.
bool merges(const check& c) {
  if (!is_record(c)) return c.traits.merges;
  return std::visit([](const auto& k) { return k.coalesces(); }, c.limiter->tiers.front());
}

std::int64_t max_wait_of(const check& c) {
  return c.traits.waits ? detail::as<detail::acquire_request>(c).max_wait.count() : 0;
}

/// True if the checks make equal requests in their own limiters.
bool same_units(const check& a, const check& b) {
  return a.units == b.units && max_wait_of(a) == max_wait_of(b);
}

std::size_t hash_of_further(const check& c) {
  const auto further = c.further();
  std::size_t seed = further.size();
  for (const detail::term& t : further) {
    boost::hash_combine(seed, t.limiter.get());
    boost::hash_combine(seed, t.units);
  }
  return seed;
}

/// True if two joint checks of one limiter have the same further limiters and costs.
bool same_further(const check& a, const check& b) {
  return std::ranges::equal(a.further(), b.further(),
                            [](const detail::term& x, const detail::term& y) {
                              return x.limiter == y.limiter && x.units == y.units;
                            });
}

bool same_subjects(const check& a, const check& b) {
  return std::ranges::equal(a.further(), b.further(),
                            [](const detail::term& x, const detail::term& y) {
                              return x.subject.view() == y.subject.view();
                            });
}

settlement_terms settlement_terms_of(const detail::check& c) {
  settlement_terms terms{detail::tickets_of(c), lowers(c)};
  if (c.traits.gives_back) {
    terms.remember = policies::shortest_marker;  // outlasts the repetitions of a give-back
  } else if (settlement_id_of(c) != 0) {
    terms.remember = detail::marker_needed_until(detail::as<detail::settle_request>(c).about);
  }
  return terms;
}

}  // namespace

inline void coalescer::join(check& c, call_key& key, script_call& call) {
  c.flight.position = key.count++;
  ++call.check_count;
  key.checks.push_back(c);
}

inline void coalescer::append(script_call& to, check& c) {
  call_key& key = to.keys.emplace_back();
  c.flight.position = 0;
  key.count = 1;
  ++to.check_count;
  key.checks.push_back(c);
  keys_ += to.tiers.size();
}

script_call& coalescer::open_call(const check& c) {
  if (spare_.empty()) {
    calls_.emplace_back();
  } else {
    calls_.splice(calls_.end(), spare_, spare_.begin());
  }
  script_call& opened = calls_.back();
  opened.number = calls_.size();
  opened.what = script_call::command::request;
  opened.kind = c.kind;
  opened.traits = c.traits;
  opened.asks = c.route.is_asking();
  opened.max_wait = max_wait_of(c);
  detail::for_each_tier(c, [&](const detail::limiter_spec& limiter, std::string_view,
                               std::int64_t number, std::size_t tier) {
    opened.tiers.push_back({detail::kernel_for(c, limiter.tiers[tier]), number});
  });
  if (opened.has_script()) opened.script = script_of(opened);
  opened.most_keys = size_.most_keys(opened);
  opened.most_checks = call_size::most_checks(opened);
  if (settles(c)) {
    opened.settling = std::make_unique<const settlement_terms>(settlement_terms_of(c));
  }
  return opened;
}

inline bool coalescer::has_room(const script_call& c) noexcept {
  return (c.keys.size() + 1) * c.tiers.size() <= c.most_keys && c.check_count < c.most_checks;
}

/// True if the last check and this one are records of one limiter and cost.
inline bool coalescer::recent::same_request(const check& c) const noexcept {
  return call != nullptr && is_record(c) && c.further().empty() && limiter == c.limiter.get() &&
         route == c.route.value && units == c.units;
}

inline bool coalescer::recent::has_subject_of(const check& c) const noexcept {
  return detail::is_same_subject(subject, c.subject.view());
}

/// The open call of the check's group, or a new call if that one comes before `not_before`: the
/// key's earlier checks must go first.
script_call& coalescer::call_for(const check& c, std::size_t not_before) {
  // It has an id of its own, or no call has room for another key.
  if (!c.traits.merges || size_.most() == 1) return open_call(c);
  const group_id group{c.limiter.get(),    c.units,        c.kind,
                       hash_of_further(c), max_wait_of(c), c.route.value};
  script_call*& open = open_.try_emplace(group, nullptr).first->second;
  const bool takes_it = open != nullptr && open->number >= not_before && has_room(*open) &&
                        same_further(open->keys.front().checks.front(), c);
  if (!takes_it) open = &open_call(c);
  return *open;
}

/// Adds the check to the last call on its keys, if the check there is equal. True if it did.
bool coalescer::join_last(check& c, const call_slot& last) {
  script_call& before = *last.call;
  call_key& key = before.keys[last.key];
  const check& other = key.checks.front();
  if (before.kind != c.kind || !same_units(other, c) || !merges(c) ||
      before.check_count >= before.most_checks || other.limiter != c.limiter ||
      !same_further(other, c) || !same_subjects(other, c)) {
    return false;
  }
  join(c, key, before);
  // See script_call::weight().
  if (before.most_checks != call_notes::unbounded) keys_ += before.tiers.size();
  return true;
}

/// The first check of the line is like the last one, subject included. Moves it to that key, with
/// all such checks right behind it, up to one with a deadline before `reachable`.
void coalescer::join_run(detail::check_list& line, check::steady_time reachable) {
  const recent last = recent_;  // a copy, which the compiler can keep in registers
  call_key& key = last.call->keys[last.key];
  const std::uint64_t hash = key.checks.front().flight.subject_hash;
  std::uint32_t position = key.count;
  auto end = line.begin();
  do {
    end->flight.position = position++;
    end->flight.subject_hash = hash;
    ++end;
  } while (end != line.end() && end->flight.deadline >= reachable && last.same_request(*end) &&
           last.has_subject_of(*end));
  last.call->check_count += position - key.count;
  key.count = position;
  key.checks.splice(key.checks.end(), line, line.begin(), end);
}

/// Adds a check whose key has to be searched. `same_request`: recent::same_request() says so.
void coalescer::add_to_key(check& c, bool same_request) {
  if (!same_request && c.route.has_own_call()) return add_alone(c);
  const std::string_view subject = c.subject.view();
  call_slot& here = last_call_.at({c.limiter->resource_id, subject, subject_hash(c)});
  if (here.call == nullptr || !join_last(c, here)) {
    const std::size_t not_before = here.call == nullptr ? 0 : here.call->number;
    const bool fits = same_request && recent_.call->number >= not_before && has_room(*recent_.call);
    script_call& target = fits ? *recent_.call : call_for(c, not_before);
    here = {&target, target.keys.size()};
    append(target, c);
  }
  if (!same_request) {
    recent_.call = nullptr;
    if (!is_record(c) || !merges(c)) return;
    if (here.call->most_checks != call_notes::unbounded) return;
    recent_.limiter = c.limiter.get();
    recent_.units = c.units;
    recent_.route = c.route.value;
  }
  recent_.call = here.call;
  recent_.key = here.key;
  recent_.subject = subject;
}

void coalescer::add_joint(check& c) {
  if (c.route.has_own_call()) return add_alone(c);
  recent_.call = nullptr;
  // The check must come after the last call on each of its keys.
  std::size_t before = 0, known = 0;
  const call_slot* first = nullptr;
  bool together = true;
  const auto look = [&](const limiter_spec& limiter, std::string_view subject) {
    const call_slot* const found = last_call_.find(id_of(limiter, subject));
    if (found == nullptr) return;
    ++known;
    before = std::max(before, found->call->number);
    if (first == nullptr) first = found;
    together = together && *first == *found;
  };
  for_each_limiter(c, look);
  if (known == 1 + c.further().size() && together && join_last(c, *first)) return;

  script_call& target = call_for(c, before);
  note_call(c, {&target, target.keys.size()});
  append(target, c);
}

/// Notes the call as the last one on each of the check's keys.
void coalescer::note_call(const check& c, const call_slot& here) {
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view subject) {
    last_call_.at(id_of(limiter, subject)) = here;
  });
}

/// In a Redis Cluster: gives the check a call of its own. Later checks of its keys go behind that
/// call.
void coalescer::add_alone(check& c) {
  recent_.call = nullptr;
  script_call& own = open_call(c);
  own.most_checks = 1;
  note_call(c, {&own, 0});
  append(own, c);
}

void coalescer::take_back(call_list& from) {
  size_.answered(from.front());
  if (spare_.size() == most_spare) return from.pop_front();
  from.front().renew();
  spare_.splice(spare_.begin(), from, from.begin());
}

void coalescer::begin() {
  while (!calls_.empty()) take_back(calls_);
  last_call_.clear();
  open_.clear();
  recent_.call = nullptr;
  keys_ = 0;
}

inline void coalescer::put(check& c, bool alone, bool same_request) {
  if (alone) {
    append(open_call(c), c);
  } else if (c.further().empty()) {
    add_to_key(c, same_request);
  } else {
    add_joint(c);
  }
}

call_list& coalescer::pack(detail::check_list& line) {
  detail::check_list none, passed_over;
  return pack(none, line, {.keys = full_write()}, passed_over);
}

call_list& coalescer::pack(detail::check_list& urgent, detail::check_list& line, const quota& q,
                           detail::check_list& passed_over) {
  // Up to this many checks are cheap enough to be examined again by the next write.
  constexpr std::size_t many = 1000;
  begin();
  const std::size_t most = full_write();
  const auto has_one = [](const detail::check_list& l) {
    return !l.empty() && std::next(l.begin()) == l.end();
  };
  const bool alone = (has_one(urgent) && line.empty()) || (has_one(line) && urgent.empty());
  while (!urgent.empty() && keys_ < most) {
    check& c = urgent.front();
    urgent.pop_front();
    put(c, alone, false);
  }
  detail::check_list passed;
  std::size_t count = 0;
  std::size_t limit = std::min(most, q.keys);
  if (!alone && !line.empty()) limit = whole_calls(limit, line.front());
  while (!line.empty() && keys_ < limit) {
    check& c = line.front();
    // A detached check has no caller, so a late answer does not matter.
    if (c.flight.deadline < q.reachable && !c.flight.is_detached) {
      passed.splice(passed.end(), line, line.begin());
      ++count;
      continue;
    }
    if (count > 0) {
      passed_over.splice(passed_over.end(), passed);
      count = 0;
    }
    const bool same_request = recent_.same_request(c);
    if (same_request && recent_.has_subject_of(c)) {
      join_run(line, q.reachable);
      continue;
    }
    line.pop_front();
    put(c, alone, same_request);
  }
  // If no call is sent, no check has been overtaken.
  if (count > many && !calls_.empty()) {
    passed_over.splice(passed_over.end(), passed);
  } else {
    line.splice(line.begin(), passed);
  }
  return calls_;
}

}  // namespace weir::redis
