#include "lines/ask.hpp"

#include "limiter_core.hpp"
#include "lines/waiting_line.hpp"

namespace weir::detail {

std::shared_ptr<ask> ask::make(waiter& w, check_kind kind, std::chrono::microseconds max_wait,
                               subject_line& line) {
  auto made = std::make_shared<ask>(*w.caller, kind, max_wait, line);
  made->for_whom = &w;
  w.asked = made;
  return made;
}

ask::ask(const check& caller, check_kind what, std::chrono::microseconds longest, subject_line& line)
    : check(caller.limiter, request{.kind = what,
                                    .subject = caller.subject,
                                    .cost = caller.cost,
                                    .timeout = caller.timeout,
                                    .further = caller.further,
                                    .max_wait = longest}),
      of(line) {
  from_line = true;
}

void ask::finish(delivery how) {
  // The line may keep it, as a turn.
  const std::shared_ptr<ask> keep = std::move(self);
  limiter->line->answered(*this, how);
}

}  // namespace weir::detail
