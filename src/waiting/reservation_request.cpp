#include "waiting/reservation_request.hpp"

#include "waiting/acquire_queue.hpp"

namespace weir::waiting {

using detail::delivery;

std::shared_ptr<reservation_request> reservation_request::make(waiter& w,
                                                               std::chrono::microseconds max_wait) {
  auto made = std::make_shared<reservation_request>(*w.caller, max_wait);
  made->owner = &w;
  return made;
}

reservation_request::reservation_request(const check& caller, std::chrono::microseconds longest)
    : check_of(std::shared_ptr(caller.limiter),
               {caller.subject,
                caller.timeout,
                {.cost = detail::as<detail::acquire_request>(caller).cost, .max_wait = longest}}) {
  flight_of(*this).is_internal = true;
}

void reservation_request::take_answer_of(check& c) noexcept {
  auto& its = detail::as<detail::acquire_request>(c);
  ec = std::exchange(c.ec, {});
  answer = std::exchange(c.answer, {});
  asked.cool_down_left = its.cool_down_left;
  asked.found = std::move(its.found);
}

void reservation_request::finish(delivery how) {
  // The queue may keep the request, as a reservation; else it is freed here.
  const std::shared_ptr<reservation_request> keep = std::move(self);
  queue->answered(*this, how);
}

}  // namespace weir::waiting
