#include "check/apply.hpp"

#include "check/limiter_spec.hpp"

namespace weir::detail {
namespace {

/// Calls f(kernel, state) with the kernel's own types.
template <class F>
decision with_state(const policies::kernel& kernel, policies::any_state& state, F&& f) {
  return std::visit([&](const auto& k) { return f(k, policies::state_for(k, state)); }, kernel);
}

decision record_one(const policies::kernel& kernel, const held_tier& t, policies::instant now) {
  return with_state(kernel, *t.state,
                    [&](const auto& k, auto& s) { return k.record(s, now, t.cost); });
}

}  // namespace

void apply(check& c, std::span<const held_tier> tiers, policies::instant now, bool is_first) {
  const held_tier& first = tiers.front();
  const bool is_alone = tiers.size() == 1;
  switch (c.kind) {
    case check_kind::record:
    case check_kind::enter:
      c.answer = is_alone ? record_one(*first.rules, first, now) : policies::record_all(tiers, now);
      break;
    case check_kind::fetch:
      c.answer = is_alone ? with_state(*first.rules, *first.state,
                                       [&](const auto& k, const auto& s) {
                                         return k.fetch(s, now, first.cost);
                                       })
                          : policies::fetch_all(tiers, now);
      break;
    case check_kind::cool_down:
    case check_kind::renew:
    case check_kind::leave:
      c.answer = record_one(kernel_for(c, *first.rules), first, now);
      break;
    case check_kind::acquire: {
      auto& asked = as<acquire_request>(c);
      asked.found.clear();  // a store that repeats the step has written here before
      c.answer = policies::reserve_all(tiers, now, asked.max_wait.count(), &asked.found);
      asked.cool_down_left = std::chrono::microseconds(policies::cool_down_left(tiers, now));
      break;
    }
    case check_kind::give_back:
      if (is_first) policies::settle_all(tiers, now, tickets_of(c));
      break;
    case check_kind::settle:
      is_first = is_first && as<settle_request>(c).id != 0;
      if (is_first) policies::settle_all(tiers, now, tickets_of(c));
      c.answer = policies::settled(tiers, now, is_first);
      break;
    case check_kind::lower:
      policies::lower_all(tiers, now);
      c.answer = policies::settled(tiers, now, true);
      break;
    case check_kind::reset:
    case check_kind::watch:
      break;
  }
}

}  // namespace weir::detail
