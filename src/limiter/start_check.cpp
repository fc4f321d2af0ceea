// The way of a check from its limiter into the store, the queue of acquire(), or an answer made in
// this process.
#include <algorithm>
#include <new>

#include "check/jitter.hpp"
#include "limiter/limiter_impl.hpp"
#include "limiter/settled_ids.hpp"
#include "policy/tier_set.hpp"

namespace weir::detail {
namespace {

constexpr std::chrono::microseconds longest_max_wait = std::chrono::hours{31 * 24};

error validate(const limiter_spec& limiter, std::string_view subject, std::int64_t cost) {
  if (subject.empty() || subject.size() > max_subject_size) return error::invalid_subject;
  if (cost < 1 || cost > max_units) return error::invalid_cost;
  if (cost > limiter.ceiling) return error::cost_exceeds_limit;
  return error{};
}

/// Validates a joint check: all keys in one slot, no key twice, no limiter with count_refused.
error validate_together(const check& c) {
  bool fits = true;
  std::size_t tiers = 0;
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view) {
    fits = fits && limiter.store == c.limiter->store && !limiter.counts_refused;
    tiers += limiter.tiers.size();
  });
  if (!fits || tiers > policies::max_tiers) return error::cannot_combine;
  std::vector<std::string> keys;
  for_each_tier(c, [&](const limiter_spec& limiter, std::string_view subject, std::int64_t,
                       std::size_t tier) {
    // A check only reads cool-downs, and limiters of one resource and subject share one: a repeated
    // key is no mistake.
    if (policies::kind_of(limiter.tiers[tier]) == policies::kernel_kind::cool_down) return;
    limiter.append_key(keys.emplace_back(), subject, tier);
    fits = fits && hash_tag(keys.back()) == hash_tag(keys.front());
    // Whether two subjects meet in a bucket is chance, and no reason to answer.
    fits = fits && (limiter.buckets == 0 || subject == c.subject.view());
  });
  std::sort(keys.begin(), keys.end());
  fits = fits && std::adjacent_find(keys.begin(), keys.end()) == keys.end();
  return fits ? error{} : error::cannot_combine;
}

bool lowers_nothing(const limiter_spec& limiter, const lower_request& asked) {
  const auto& tiers = limiter.tiers;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::int64_t limit = std::visit([](const auto& k) { return k.limit(); }, tiers[i]);
    if (limit != unlimited && left_in(limiter, asked, i) < limit) return false;
  }
  return true;
}

bool all_can_settle(const check& c) {
  bool all = true;
  for_each_limiter(c, [&](const limiter_spec& l, std::string_view) { all = all && l.can_settle; });
  return all;
}

/// A store writes down until when it remembers that a decision was settled, and the caller may have
/// taken the decision from anywhere.
bool has_times_of_ours(const decision& d) noexcept {
  const std::int64_t at = d.decided_at.time_since_epoch().count();
  const auto is_ahead = [at](std::chrono::microseconds by) {
    return by.count() >= 0 && by.count() <= policies::max_exact - at;
  };
  return policies::is_instant(at) && is_ahead(d.reset_after) && is_ahead(d.delay) &&
         policies::is_instant(d.receipt.counted_at);
}

error validate_settlement(const check& c) {
  const settle_request& asked = as<settle_request>(c);
  const auto validate_term = [](const limiter_spec& l, std::string_view subject,
                                std::int64_t actual) {
    const error e = validate(l, subject, 1);
    return e == error{} && (actual < 0 || actual > max_units) ? error::invalid_cost : e;
  };
  const error own = validate_term(*c.limiter, c.subject.view(), asked.actual_cost);
  if (own != error{}) return own;
  for (const term& t : c.further()) {
    if (const error e = validate_term(*t.limiter, t.subject.view(), t.cost); e != error{}) return e;
  }
  if (c.further().size() >= receipt::most_limiters) return error::cannot_settle;
  if (const receipt& r = asked.about.receipt; r.id != 0) {  // 0: the decision took no units
    const auto is_cost = [](std::int64_t cost) { return cost >= 0 && cost <= max_units; };
    const bool can = all_can_settle(c) && r.origin == origin_of(c) &&
                     std::all_of(r.costs.begin(), r.costs.end(), is_cost) &&
                     has_times_of_ours(asked.about);
    if (!can) return error::cannot_settle;
  }
  return c.further().empty() ? error{} : validate_together(c);
}

/// Validates a check that counts, looks or enters: `cost` is what its own limiter has to fit.
error validate_request(const check& c, std::int64_t cost) {
  if (const error e = validate(*c.limiter, c.subject.view(), cost); e != error{}) return e;
  for (const term& t : c.further()) {
    if (const error e = validate(*t.limiter, t.subject.view(), t.cost); e != error{}) return e;
  }
  if (c.kind == check_kind::acquire && !all_can_settle(c)) return error::cannot_wait;
  return c.further().empty() ? error{} : validate_together(c);
}

error validate(const check& c) {
  switch (c.kind) {
    case check_kind::record:
      return validate_request(c, as<record_request>(c).cost);
    case check_kind::fetch:
      return validate_request(c, as<fetch_request>(c).cost);
    case check_kind::acquire:
      return validate_request(c, as<acquire_request>(c).cost);
    case check_kind::enter:
      return validate_request(c, 1);
    case check_kind::settle:
      return validate_settlement(c);
    case check_kind::cool_down:
    case check_kind::lower:
      if (!c.limiter->has_cool_down) return error::cool_downs_disabled;
      break;
    case check_kind::reset:
    case check_kind::renew:
    case check_kind::leave:
    case check_kind::give_back:
    case check_kind::watch:
      break;
  }
  return validate(*c.limiter, c.subject.view(), 1);
}

/// Completes the request of a valid check. True if it has its answer already: no store is asked.
bool prepare(check& c) {
  switch (c.kind) {
    case check_kind::acquire: {
      acquire_request& asked = as<acquire_request>(c);
      asked.max_wait = std::clamp(asked.max_wait, std::chrono::microseconds{0}, longest_max_wait);
      return false;
    }
    case check_kind::cool_down: {
      cool_down_request& asked = as<cool_down_request>(c);
      const std::chrono::microseconds longest(impl_of(*c.limiter).max_cool_down);
      asked.was_clamped = asked.duration > longest;
      asked.duration = std::clamp(asked.duration, std::chrono::microseconds{0}, longest);
      return false;
    }
    case check_kind::settle: {
      settle_request& asked = as<settle_request>(c);
      asked.id = asked.about.receipt.id;
      // A decision that this process has settled is not settled again, even if the store lost the
      // marker.
      if (asked.id != 0 && settled_ids::of_process().contains(asked.id)) asked.id = 0;
      return false;
    }
    case check_kind::lower:
      // True for a vendor's response that imposes no cool-down and lowers nothing.
      return c.answer.allowed = lowers_nothing(*c.limiter, as<lower_request>(c));
    default:
      return false;
  }
}

/// True if the check is refused because it was refused before; it then has its answer.
bool is_denied(check& c) {
  const auto now = std::chrono::steady_clock::now();
  const auto remembered = impl_of(*c.limiter)
                              .denials->find(c.subject.view(), as<record_request>(c).cost, now);
  if (!remembered) {
    flight_of(c).sent = now;  // for deny_cache::note(); a store that sends notes a later time
    return false;
  }
  c.answer = *remembered;
  if (c.answer.cooling_down) c.answer.retry_after += jitter(c.answer.retry_after);
  return true;
}

void answer_here(check& c) {
  flight_of(c).stage = check_stage::done;
  c.finish(delivery::post);
}

/// Starts a record of a limiter that may answer it in this process.
void start_or_answer(check& c) {
  const limiter_impl& own = impl_of(*c.limiter);
  const auto ask = [&](store_backend& store) {
    if (own.denials != nullptr && is_denied(c)) return answer_here(c);
    store.start(c);
  };
  if (own.local == nullptr) return ask(*own.store);
  // The check may be gone, and with it the last handle of its limiter, before the take is started.
  const std::shared_ptr<const limiter_spec> limiter = c.limiter;
  const local_units::outcome local = own.local->spend(c);
  if (local.is_answered) {
    flight_of(c).stage = check_stage::done;
    limiter->store->finish_answered(c);
  } else {
    ask(*limiter->store);
  }
  if (local.take != nullptr) limiter->store->start(*local.take);
}

/// Starts any check but a plain record. The common case then saves no registers for this function.
[[gnu::noinline]] void start_other(check& c) {
  if (c.kind == check_kind::watch) return impl_of(*c.limiter).leases->watch(c);
  bool has_answer = true;
  try {
    if (const error e = validate(c); e != error{}) c.ec = e;
    has_answer = c.ec || prepare(c);
  } catch (const std::bad_alloc&) {
    c.ec = error::store_full;  // nobody would own the check after an exception
  }
  if (has_answer) return answer_here(c);
  if (c.kind == check_kind::acquire && c.further().empty()) {
    return impl_of(*c.limiter).queue->arrive(c);
  }
  if (c.kind == check_kind::acquire) return c.limiter->store->wait(c);
  if (c.kind == check_kind::record && c.further().empty() && c.limiter->answers_locally) {
    return start_or_answer(c);
  }
  c.limiter->store->start(c);
}

}  // namespace

void start_check(check& c) {
  if (c.kind == check_kind::record && c.further().empty() && !c.limiter->answers_locally &&
      validate(*c.limiter, c.subject.view(), as<record_request>(c).cost) == error{}) {
    return c.limiter->store->start(c);  // the common case
  }
  start_other(c);
}

void cancel_check(check& c, cancel_scope scope) {
  if (c.kind == check_kind::watch) return impl_of(*c.limiter).leases->unwatch(c);
  if (c.kind == check_kind::acquire && c.further().empty()) {
    return impl_of(*c.limiter).queue->cancel(c, scope);
  }
  if (c.kind == check_kind::acquire) return c.limiter->store->cancel_waiting(c, scope);
  c.limiter->store->cancel(c, scope);
}

}  // namespace weir::detail
