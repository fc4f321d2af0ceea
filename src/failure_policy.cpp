#include "failure_policy.hpp"

#include <algorithm>

#include "clock.hpp"
#include "limiter_core.hpp"

namespace weir::detail {
namespace {

/// A refusal by a process that does not know: come back when the store may be well again.
constexpr std::chrono::seconds unknown_pause{1};

decision without_store(bool allowed) {
  decision d;
  d.allowed = allowed;
  d.source = source::fallback;
  d.at = policies::to_time_point(read_clock({}));
  if (!allowed) d.retry_after = unknown_pause;
  return d;
}

std::int64_t part_of(std::int64_t limit, std::int64_t clients) {
  return limit == unlimited ? unlimited : std::max<std::int64_t>(1, limit / clients);
}

/// count / (period * clients), in whichever way stays in range.
rate part_of(rate r, std::int64_t clients) {
  constexpr std::int64_t longest = std::int64_t{1} << 50;
  if (r.count % clients == 0) return {r.count / clients, r.period};
  if (r.period.count() <= longest / clients) return {r.count, r.period * clients};
  return {std::max<std::int64_t>(1, r.count / clients), r.period};
}

struct sharer {
  std::int64_t clients;

  template <class Window>
  weir::policy operator()(Window p) const {
    p.limit = part_of(p.limit, clients);
    return p;
  }
  weir::policy operator()(weir::token_bucket p) const {
    p.capacity = part_of(p.capacity, clients);
    p.refill = part_of(p.refill, clients);
    return p;
  }
  weir::policy operator()(weir::gcra p) const {
    p.burst = part_of(p.burst, clients);
    p.rate = part_of(p.rate, clients);
    return p;
  }
  weir::policy operator()(weir::leaky_bucket p) const {
    p.capacity = part_of(p.capacity, clients);
    p.leak = part_of(p.leak, clients);
    return p;
  }
};

}  // namespace

bool is_store_failure(const error_code& ec) noexcept {
  if (ec == condition::invalid_input || ec == error::store_closed) return false;
  // One of our own errors at all, and no cancellation.
  return ec == condition::not_counted || ec == condition::may_have_counted;
}

weir::policy share_of(const weir::policy& policy, std::int64_t clients) {
  return std::visit(sharer{std::max<std::int64_t>(1, clients)}, policy);
}

local_fallback::local_fallback(const weir::policy& policy, const limiter_options& options)
    : kernel_(policies::compile(share_of(policy, options.expected_clients))),
      ceiling_(std::visit([](const auto& k) { return k.ceiling(); }, kernel_)),
      subjects_(options.fallback_subjects) {}

decision local_fallback::answer(const check& c) {
  // The cost fits the whole limit, but perhaps not this process's share of it.
  if (c.cost > ceiling_) return without_store(false);
  const policies::instant now = read_clock({});
  decision d;
  if (c.kind == check_kind::fetch) {
    d = subjects_.fetch(kernel_, c.subject.view(), now, c.cost);
  } else if (subjects_.record(kernel_, c.subject.view(), now, c.cost, d)) {
    return without_store(false);
  }
  d.source = source::fallback;
  return d;
}

void apply_failure_policy(check& c) {
  const limiter_core& limiter = *c.limiter;
  if (!c.ec || limiter.failure == on_failure::raise || c.kind == check_kind::reset ||
      !is_store_failure(c.ec)) {
    return;
  }
  c.ec = {};
  if (limiter.failure == on_failure::fallback) {
    c.answer = limiter.fallback->answer(c);
  } else {
    c.answer = without_store(limiter.failure == on_failure::open);
    c.answer.limit = limiter.nominal_limit;
  }
}

}  // namespace weir::detail
