// The way of a check from its limiter into the store, the waiting room of acquire(), or an answer
// made in this process.
#include <algorithm>
#include <new>

#include "base/jitter.hpp"
#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"
#include "limiter/settled_ids.hpp"
#include "limiter/validation.hpp"

namespace weir::detail {

static void start_other(check& c);

void start_check(check& c) {
  if (is_record(c) && c.further().empty() && !c.limiter->answers_locally &&
      c.timeout.count() >= 0 && validate(*c.limiter, c.subject.view(), c.units) == error{}) {
    return c.limiter->store->start(c);  // the common case
  }
  start_other(c);
}

namespace {

constexpr std::chrono::microseconds longest_max_wait = std::chrono::hours{31 * 24};

bool lowers_nothing(const check& c) {
  const auto& tiers = c.limiter->tiers;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::int64_t limit = std::visit([](const auto& k) { return k.limit(); }, tiers[i]);
    if (limit != unlimited && units_of(c, i) < limit) return false;
  }
  return true;
}

/// Finds the units that a settlement gives back, or charges if below zero.
void prepare_settlement(check& c) {
  settle_request& asked = as<settle_request>(c);
  asked.id = asked.about.receipt.id;
  // A decision that this process has settled is not settled again, even if the store lost the
  // marker.
  if (asked.id != 0 && settled_ids::of_process().contains(asked.id)) asked.id = 0;
  const auto settle = [&](std::int64_t& actual, std::int64_t cost) {
    actual = asked.id == 0 ? 0 : cost - actual;
  };
  settle(c.units, asked.about.receipt.cost);
  std::size_t i = 0;
  for (term& t : c.further()) settle(t.units, c.further_taken()->costs[i++]);
}

/// Completes the request of a valid check. True if it has its answer already: no store is asked.
bool prepare(check& c) {
  switch (c.kind) {
    case check_kind::acquire: {
      acquire_request& asked = as<acquire_request>(c);
      asked.max_wait = std::min(asked.max_wait, longest_max_wait);
      return false;
    }
    case check_kind::cool_down: {
      const std::int64_t longest = impl_of(*c.limiter).max_cool_down;
      as<cool_down_request>(c).was_clamped = c.units > longest;
      c.units = std::min(c.units, longest);
      return false;
    }
    case check_kind::settle:
      // Done already if a vendor's response imposes no cool-down and lowers nothing.
      if (lowers(c)) return c.answer.allowed = lowers_nothing(c);
      prepare_settlement(c);
      return false;
    default:
      return false;
  }
}

/// True if the check is refused because it was refused before; it then has its answer.
bool is_denied(check& c) {
  const auto now = std::chrono::steady_clock::now();
  const auto remembered = impl_of(*c.limiter).denials->find(c.subject.view(), c.units, now);
  if (!remembered) {
    c.flight.sent = now;  // for deny_cache::note(); a store that sends notes a later time
    return false;
  }
  c.answer = *remembered;
  if (c.answer.cooling_down) c.answer.retry_after += jitter(c.answer.retry_after);
  return true;
}

void answer_here(check& c) {
  c.flight.stage = check_stage::done;
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
    c.flight.stage = check_stage::done;
    limiter->store->sink().complete(c);  // as if the store had answered
  } else {
    ask(*limiter->store);
  }
  if (local.take != nullptr) limiter->store->start(*local.take);
}

}  // namespace

/// Starts any check but a plain record. The common case then saves no registers for this function.
[[gnu::noinline]] static void start_other(check& c) {
  if (c.traits.watches) return impl_of(*c.limiter).leases->watch(c);
  bool has_answer = true;
  try {
    if (const error e = validate(c); e != error{}) c.ec = e;
    has_answer = c.ec || prepare(c);
  } catch (const std::bad_alloc&) {
    c.ec = error::store_full;  // nobody would own the check after an exception
  }
  if (has_answer) return answer_here(c);
  if (c.traits.waits && c.further().empty()) {
    return impl_of(*c.limiter).room->arrive(c, impl_of(*c.limiter).waiting_rules);
  }
  if (c.traits.waits) return c.limiter->store->sink().wait(c);
  if (is_record(c) && c.further().empty() && c.limiter->answers_locally) {
    return start_or_answer(c);
  }
  c.limiter->store->start(c);
}

void cancel_check(check& c, cancel_scope scope) {
  if (c.traits.watches) return impl_of(*c.limiter).leases->unwatch(c);
  if (c.traits.waits && c.further().empty()) {
    return impl_of(*c.limiter).room->cancel(c, scope);
  }
  if (c.traits.waits) return c.limiter->store->sink().cancel(c, scope);
  c.limiter->store->cancel(c, scope);
}

}  // namespace weir::detail
