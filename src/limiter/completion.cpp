#include "limiter/completion.hpp"

#include "base/random.hpp"
#include "check/delivery_batch.hpp"
#include "check/delivery_queue.hpp"
#include "limiter/conclusion.hpp"
#include "limiter/limiter_impl.hpp"

namespace weir::detail {
namespace {

/// True for the common case: an answered record of one limiter. Only its receipt is missing.
bool is_plain(const check& c) {
  return is_record(c) && !c.ec && !c.answer.cooling_down && c.further().empty() &&
         !c.limiter->answers_locally;
}

/// Writes its receipt; inline, because nearly every check gets here.
inline void sign_plain(check& c, random_numbers& numbers) {
  if (!took_units(c) || !c.limiter->can_settle) return;
  write_receipt(c, numbers.next(), c.limiter->origin_of(subject_hash(c)));
  c.answer.receipt.costs[0] = c.units;
}

/// True for the check of a caller of acquire(), which went to the store itself.
bool is_direct(const check& c) {
  return c.traits.waits && c.further().empty() && !c.flight.is_internal &&
         !c.flight.is_detached;
}
/// True if such a caller has to wait: then the queue has its check.
bool is_taken_in(check& c) { return impl_of(*c.limiter).queue->takes_in(c); }

/// Concludes a check of this list. A detached acquire moves to `stand_ins`; any other detached
/// check is finished at once.
void conclude_in_list(check_list& list, check& c, check_list& stand_ins,
                      waiting::acquire_queue& joint_waiters) {
  conclude(c, joint_waiters);
  if (is_direct(c)) {
    const auto next = list.erase(list.iterator_to(c));
    if (!is_taken_in(c)) list.insert(next, c);
  } else if (c.flight.is_detached) {
    c.line.unlink();
    if (c.traits.waits) {
      stand_ins.push_back(c);
    } else {
      c.finish(delivery::post);
    }
  }
}

}  // namespace

completion::completion(const boost::asio::any_io_executor& executor)
    : executor_(executor), ready_(std::make_shared<delivery_queue>()) {}

void completion::complete(check& c) {
  if (is_plain(c)) {
    random_numbers numbers;
    sign_plain(c, numbers);
  } else {
    conclude(c, joint_waiters_);
    if (is_direct(c) && is_taken_in(c)) return;
  }
  if (c.at_store) return ready_->add(executor_, c);
  c.finish(delivery::post);
}

void completion::complete(check_list&& done) {
  random_numbers numbers;
  check_list stand_ins;
  for (auto it = done.begin(); it != done.end();) {
    check& c = *it++;
    if (is_plain(c)) {
      sign_plain(c, numbers);
    } else {
      conclude_in_list(done, c, stand_ins, joint_waiters_);
    }
  }
  // The store takes a reservation back whole only if none stands behind it: the last one first.
  while (!stand_ins.empty()) {
    check& last = stand_ins.back();
    stand_ins.pop_back();
    last.finish(delivery::post);
  }
  delivery_batch::post(executor_, std::move(done));
}

void completion::wait(check& c) { joint_waiters_.arrive(c, impl_of(*c.limiter).queue->rules()); }

void completion::cancel(check& c, cancel_scope scope) { joint_waiters_.cancel(c, scope); }

void completion::close(const std::shared_ptr<void>& keep_alive) {
  joint_waiters_.close(keep_alive);
}

void completion::context_shut_down() noexcept {
  executor_ = {};
  ready_->context_shut_down();
  joint_waiters_.context_shut_down();
}

}  // namespace weir::detail
