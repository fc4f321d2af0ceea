#include "waiting/reservation.hpp"

#include <algorithm>

#include "waiting/max_wait.hpp"

namespace weir::waiting {

using std::chrono::microseconds;

joint_decision reservation::decision_since(steady_time reserved_at) const noexcept {
  joint_decision d = answer;
  const time_point begins = d.decided_at + d.delay, idle = d.decided_at + d.reset_after;
  const auto waited = std::chrono::floor<microseconds>(due - postponed_by - reserved_at);
  d.delay = std::max(microseconds{0}, waited);
  d.decided_at = begins - d.delay;
  d.reset_after = std::max(microseconds{0}, idle - d.decided_at);
  return d;
}

decision reservation::refusal(microseconds max_wait, steady_time now, steady_time until) const {
  decision d = answer;
  d.receipt = {};
  refuse_in_cool_down(d, d.delay - std::chrono::floor<microseconds>(due - postponed_by - now),
                      std::chrono::ceil<microseconds>(until - now), max_wait);
  return d;
}

}  // namespace weir::waiting
