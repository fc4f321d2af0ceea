#include "weir/limiter.hpp"

#include <algorithm>

#include "check/clock.hpp"
#include "limiter/limiter_impl.hpp"
#include "limiter/settled_ids.hpp"
#include "policy/tier_set.hpp"

namespace weir {

limiter::limiter(const weir::store& store, std::string_view resource, const weir::policy& policy,
                 const limiter_options& options)
    : limiter(store, resource, weir::tiers(policy), options) {}

limiter::limiter(const weir::store& store, std::string_view resource, const weir::tiers& tiers,
                 const limiter_options& options)
    : core_(std::make_shared<detail::limiter_impl>(store.backend(), resource, tiers, options)) {}

std::string_view limiter::resource() const noexcept { return core_->resource; }

boost::asio::any_io_executor limiter::get_executor() const noexcept {
  return core_->store->get_executor();
}

limiter::answer_to_vendor limiter::heed(int status, std::span<const header_field> headers,
                                        const response_options& options) const {
  const detail::limiter_impl& own = detail::impl_of(*core_);
  const time_point now = policies::to_time_point(detail::read_clock({}));
  const vendor_feedback said = read_feedback(status, headers, now, own.response_parsing);
  const auto asked = said.blocked_for.value_or(std::chrono::microseconds{0});
  const auto pause = said.refused && asked.count() == 0 ? own.default_cool_down : asked;
  const vendor_quota& quota = own.sync_remaining_with == vendor_count::tokens ? said.tokens
                                                                              : said.requests;
  const bool follows = own.sync_remaining_with != vendor_count::none && quota.remaining &&
                       *quota.remaining < options.known_remaining;
  decision spoke_of;
  if (pause.count() > 0 || !follows) {
    spoke_of.allowed = pause.count() <= 0;  // true: no script call is needed
    return {detail::check_kind::cool_down, pause.count(), spoke_of};
  }
  spoke_of.limit = quota.limit.value_or(0);
  return {detail::check_kind::lower, std::min(*quota.remaining, max_units), spoke_of};
}

namespace detail {
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
  bool fits = !c.limiter->counts_refused;
  std::size_t tiers = c.limiter->tiers.size();
  for (const term& t : c.further) {
    fits = fits && t.limiter->store == c.limiter->store && !t.limiter->counts_refused;
    tiers += t.limiter->tiers.size();
  }
  if (!fits || tiers > policies::max_tiers) return error::cannot_combine;
  std::vector<std::string> keys;
  for_each_tier(c, [&](const limiter_spec& limiter, std::string_view subject, std::int64_t,
                       std::size_t tier) {
    // A check only reads cool-downs, and limiters of one resource and subject share one: a repeated
    // key is no mistake.
    if (!policies::has_number(limiter.tiers[tier])) return;
    limiter.append_key(keys.emplace_back(), subject, tier);
    fits = fits && hash_tag(keys.back()) == hash_tag(keys.front());
  });
  std::sort(keys.begin(), keys.end());
  fits = fits && std::adjacent_find(keys.begin(), keys.end()) == keys.end();
  return fits ? error{} : error::cannot_combine;
}

bool lowers_nothing(const check& c) {
  const auto& tiers = c.limiter->tiers;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::int64_t limit = std::visit([](const auto& k) { return k.limit(); }, tiers[i]);
    if (limit != unlimited && left_in(c, i) < limit) return false;
  }
  return true;
}

/// True if `holds` is true for every limiter of the check.
template <class F>
bool all_limiters(const check& c, F&& holds) {
  return holds(*c.limiter) && std::all_of(c.further.begin(), c.further.end(),
                                          [&](const term& t) { return holds(*t.limiter); });
}

/// The queue of an acquire of one limiter; null for other checks. acquire_all waits in `sleepers`.
waiting::acquire_queue* queue_of(const check& c) {
  const bool is_in_line = c.kind == check_kind::acquire && c.further.empty();
  return is_in_line ? impl_of(*c.limiter).queue.get() : nullptr;
}

/// Validates a settlement. `c.answer` is the decision to settle.
error validate_settlement(const check& c) {
  const auto validate_term = [](const limiter_spec& l, std::string_view subject,
                                std::int64_t actual) {
    const error e = validate(l, subject, 1);
    return e == error{} && (actual < 0 || actual > max_units) ? error::invalid_cost : e;
  };
  if (const error e = validate_term(*c.limiter, c.subject.view(), c.cost); e != error{}) return e;
  for (const term& t : c.further) {
    if (const error e = validate_term(*t.limiter, t.subject.view(), t.cost); e != error{}) return e;
  }
  if (c.further.size() >= receipt::most_limiters) return error::cannot_settle;
  if (const receipt& r = c.answer.receipt; r.id != 0) {  // 0: the decision took no units
    const auto can_settle = [](const limiter_spec& l) { return l.can_settle; };
    const auto is_cost = [](std::int64_t cost) { return cost >= 0 && cost <= max_units; };
    const bool can = all_limiters(c, can_settle) && r.origin == origin_of(c) &&
                     std::all_of(r.costs.begin(), r.costs.end(), is_cost);
    if (!can) return error::cannot_settle;
  }
  return c.further.empty() ? error{} : validate_together(c);
}

error validate(const check& c) {
  if (c.kind == check_kind::settle) return validate_settlement(c);
  if (c.kind == check_kind::reset) return validate(*c.limiter, c.subject.view(), 1);
  if (c.kind == check_kind::cool_down || c.kind == check_kind::lower) {
    return c.limiter->has_cool_down ? validate(*c.limiter, c.subject.view(), 1)
                                    : error::cool_downs_disabled;
  }
  if (const error e = validate(*c.limiter, c.subject.view(), c.cost); e != error{}) return e;
  for (const term& t : c.further) {
    if (const error e = validate(*t.limiter, t.subject.view(), t.cost); e != error{}) return e;
  }
  const auto can_book = [](const limiter_spec& l) { return l.can_book; };
  if (c.kind == check_kind::acquire && !all_limiters(c, can_book)) return error::cannot_wait;
  return c.further.empty() ? error{} : validate_together(c);
}

/// Turns each actual cost into an amount: positive is given back, negative is charged.
void prepare_settlement(check& c) {
  const receipt r = c.answer.receipt;
  c.once = r.id;
  // A decision that this process has settled is not settled again, even if the store lost the
  // marker.
  if (c.once != 0 && settled_ids::of_process().contains(c.once)) c.once = 0;
  const auto amount = [&](std::size_t i, std::int64_t actual) {
    return c.once == 0 ? 0 : r.costs[i] - actual;
  };
  c.cost = amount(0, c.cost);
  for (std::size_t i = 0; i < c.further.size(); ++i) {
    c.further[i].cost = amount(1 + i, c.further[i].cost);
  }
  if (c.once == 0) c.answer = {};
}

}  // namespace

void start_check(check& c) {
  if (c.kind == check_kind::watch) return impl_of(*c.limiter).leases->watch(c);
  if (const error e = validate(c); e != error{}) c.ec = e;
  if (!c.ec && c.kind == check_kind::cool_down) {
    c.was_clamped = c.cost > impl_of(*c.limiter).max_cool_down;
    c.cost = std::clamp<std::int64_t>(c.cost, 0, impl_of(*c.limiter).max_cool_down);
  }
  c.max_wait = c.kind == check_kind::acquire
                   ? std::clamp(c.max_wait, std::chrono::microseconds{0}, longest_max_wait)
                   : std::chrono::microseconds{0};
  if (c.kind == check_kind::lower && lowers_nothing(c)) c.answer.allowed = true;
  // True for a vendor's response that imposes no cool-down and lowers nothing.
  const bool is_answered = c.kind != check_kind::settle && c.answer.allowed;
  if (c.kind == check_kind::settle) {
    if (c.ec) {
      c.answer = {};
    } else {
      prepare_settlement(c);
    }
  }
  if (c.ec || is_answered) {  // no script call is needed
    c.stage = check_stage::done;
    c.finish(delivery::post);
    return;
  }
  if (waiting::acquire_queue* queue = queue_of(c)) return queue->arrive(c);
  c.limiter->store->start(c);
}

void cancel_check(check& c, cancel_scope scope) {
  if (c.kind == check_kind::watch) return impl_of(*c.limiter).leases->unwatch(c);
  if (waiting::acquire_queue* queue = queue_of(c)) return queue->cancel(c, scope);
  c.limiter->store->cancel(c, scope);
}

}  // namespace detail
}  // namespace weir
