#include "check/apply.hpp"

#include "check/limiter_spec.hpp"

namespace weir::detail {

void apply(check& c, std::span<const held_tier> tiers, policies::instant now, bool is_first) {
  switch (c.kind) {
    case check_kind::record:
      c.answer = policies::record_all(tiers, now, c.further_taken());
      break;
    case check_kind::fetch:
      c.answer = policies::fetch_all(tiers, now);
      break;
    case check_kind::cool_down:
    case check_kind::lease: {
      if (tiers.size() > 1) {  // an enter with claims
        c.answer = policies::record_all(tiers, now, c.further_taken());
        break;
      }
      const policies::kernel own = kernel_for(c, *tiers.front().rules);
      const held_tier one{&own, tiers.front().state, tiers.front().cost};
      c.answer = policies::record_all(std::span(&one, 1), now);
      break;
    }
    case check_kind::acquire: {
      auto& asked = as<acquire_request>(c);
      asked.found.clear();  // a store that repeats the step has written here before
      c.answer = policies::reserve_all(tiers, now, asked.max_wait.count(), c.further_taken(),
                                       &asked.found);
      asked.cool_down_left = std::chrono::microseconds(policies::cool_down_left(tiers, now));
      break;
    }
    case check_kind::settle:
      if (as<settle_request>(c).cause == settle_cause::vendor) {
        policies::lower_all(tiers, now);
      } else {
        is_first = is_first && settlement_id_of(c) != 0;
        if (is_first) policies::settle_all(tiers, now, tickets_of(c));
      }
      c.answer = policies::settled(tiers, now, is_first);
      break;
    case check_kind::reset:
      break;
  }
}

}  // namespace weir::detail
