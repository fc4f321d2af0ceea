#include "waiting/reservation_request.hpp"

#include <algorithm>

#include "check/give_back.hpp"
#include "waiting/acquire_queue.hpp"
#include "waiting/max_wait.hpp"

namespace weir::waiting {

using detail::delivery;
using std::chrono::microseconds;

reservation_request::reservation_request(const check& caller, microseconds longest)
    : joint_check_of(std::shared_ptr(caller.limiter), detail::acquire_like(caller, longest)) {
  timeout = caller.timeout;
  flight.is_internal = true;
}

void reservation_request::take_answer_of(check& c) noexcept {
  auto& its = detail::as<detail::acquire_request>(c);
  ec = std::exchange(c.ec, {});
  answer = std::exchange(c.answer, {});
  asked.cool_down_left = its.cool_down_left;
  asked.found = std::move(its.found);
}

decision reservation_request::decision_for(const waiter& w) const noexcept {
  decision d = answer;
  const time_point begins = d.decided_at + d.delay, idle = d.decided_at + d.reset_after;
  const auto waited = std::chrono::floor<microseconds>(due() - postponed_by - w.reserved_at);
  d.delay = std::max(microseconds{0}, waited);
  d.decided_at = begins - d.delay;
  d.reset_after = std::max(microseconds{0}, idle - d.decided_at);
  return d;
}

decision reservation_request::refusal_for(const waiter& w, steady_time now,
                                          steady_time until) const {
  decision d = answer;
  d.receipt = {};
  refuse_in_cool_down(d, d.delay - std::chrono::floor<microseconds>(due() - postponed_by - now),
                      std::chrono::ceil<microseconds>(until - now), w.request().max_wait);
  return d;
}

void reservation_request::finish(delivery how) {
  // The queue may keep the request, as a reservation; else it is freed here.
  const std::shared_ptr<reservation_request> keep = std::move(self);
  queue->answered(*this, how);
}

}  // namespace weir::waiting
