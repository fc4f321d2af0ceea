// The way of a check from its limiter into the store, the queue of acquire(), or an answer made in
// this process.
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
  if (c.kind == check_kind::record && c.further().empty() && !c.limiter->answers_locally &&
      c.timeout.count() >= 0 &&
      validate(*c.limiter, c.subject.view(), as<record_request>(c).cost) == error{}) {
    return c.limiter->store->start(c);  // the common case
  }
  start_other(c);
}

namespace {

constexpr std::chrono::microseconds longest_max_wait = std::chrono::hours{31 * 24};

bool lowers_nothing(const limiter_spec& limiter, const lower_request& asked) {
  const auto& tiers = limiter.tiers;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::int64_t limit = std::visit([](const auto& k) { return k.limit(); }, tiers[i]);
    if (limit != unlimited && left_in(limiter, asked, i) < limit) return false;
  }
  return true;
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
      cool_down_request& asked = as<cool_down_request>(c);
      const std::chrono::microseconds longest(impl_of(*c.limiter).max_cool_down);
      asked.was_clamped = asked.duration > longest;
      asked.duration = std::min(asked.duration, longest);
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
    limiter->store->sink().complete(c);  // as if the store had answered
  } else {
    ask(*limiter->store);
  }
  if (local.take != nullptr) limiter->store->start(*local.take);
}

}  // namespace

/// Starts any check but a plain record. The common case then saves no registers for this function.
[[gnu::noinline]] static void start_other(check& c) {
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
  if (c.kind == check_kind::acquire) return c.limiter->store->sink().wait(c);
  if (c.kind == check_kind::record && c.further().empty() && c.limiter->answers_locally) {
    return start_or_answer(c);
  }
  c.limiter->store->start(c);
}

void cancel_check(check& c, cancel_scope scope) {
  if (c.kind == check_kind::watch) return impl_of(*c.limiter).leases->unwatch(c);
  if (c.kind == check_kind::acquire && c.further().empty()) {
    return impl_of(*c.limiter).queue->cancel(c, scope);
  }
  if (c.kind == check_kind::acquire) return c.limiter->store->sink().cancel(c, scope);
  c.limiter->store->cancel(c, scope);
}

}  // namespace weir::detail
