#include "limiter/completion.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/jitter.hpp"
#include "base/random.hpp"
#include "check/delivery_batch.hpp"
#include "check/delivery_queue.hpp"
#include "check/store_backend.hpp"
#include "limiter/failure_policy.hpp"
#include "limiter/limiter_impl.hpp"
#include "limiter/settled_ids.hpp"

namespace weir::detail {
namespace {

/// True for a decision of the store that took units.
bool took_units(const check& c) { return c.answer.allowed && c.answer.source == source::store; }

void write_receipt(check& c, std::uint64_t number, std::uint64_t origin, std::int64_t cost) {
  c.answer.receipt.id = std::max<std::uint64_t>(1, number);  // 0: no receipt
  c.answer.receipt.origin = origin;
  c.answer.receipt.cost = cost;
}

/// Writes the receipt of a decision. A gate takes no units: the receipt of an enter is for its
/// claims.
void sign(check& c) {
  const bool enters = c.kind == check_kind::lease;
  const auto further = c.further();
  if (!c.traits.signs || !took_units(c) || (enters && further.empty())) return;
  const auto can_settle = [](const term& t) { return t.limiter->can_settle; };
  if ((enters ? 0 : 1) + further.size() > receipt::most_limiters ||
      (!enters && !c.limiter->can_settle) ||
      !std::all_of(further.begin(), further.end(), can_settle)) {
    return;
  }
  const auto others = enters ? further.subspan(1) : further;
  if (!others.empty()) {
    std::ranges::transform(others, c.further_taken()->costs.begin(), &term::units);
  }
  write_receipt(c, random_number(), origin_of(c), enters ? further.front().units : c.units);
}

/// Notes the store's answer to a record, for the next ones.
void remember(const check& c) {
  if (c.answer.source != source::store || !c.further().empty() || c.flight.is_internal) return;
  const limiter_impl& own = impl_of(*c.limiter);
  if (own.local != nullptr) own.local->note_reply(c.subject.view(), c.answer);
  if (own.denials == nullptr || c.answer.allowed) return;
  own.denials->note(c.subject.view(), c.units, c.answer, c.flight.sent);
}

/// After a reset: all limiters with the same keys share the cool-down that it ended, and each has
/// noted it on its own.
void forget_cool_down(const check& reset, waiting::waiting_room& joint_room) {
  const limiter_spec& own = *reset.limiter;
  if (!own.has_cool_down) return;
  joint_room.forget_cool_down(reset.limiter, reset.subject.view());
  impl_of(own).met->forget(reset.subject.view());
  for (const auto& one : own.store->limiters().present()) {
    if (one->resource_id != own.resource_id || !one->has_cool_down) continue;
    const auto& room = impl_of(*one).room;
    if (room != nullptr) room->forget_cool_down(one, reset.subject.view());
  }
}

bool may_have_run(const check& c) {
  const bool was_sent = c.flight.sent != check::steady_time{};
  return !c.ec || (was_sent && c.ec != condition::not_counted);
}

/// Forgets the refusals of the subjects to which this check may have given units back, and the
/// local units and the cool-down of a subject that it has reset.
void forget_local_answers(const check& c, waiting::waiting_room& joint_room) {
  if (!c.traits.frees_units) return;
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view subject) {
    if (!limiter.answers_locally) return;
    const limiter_impl& own = impl_of(limiter);
    if (own.denials != nullptr) own.denials->forget(subject, std::chrono::steady_clock::now());
    if (own.local != nullptr && resets(c) && may_have_run(c)) {
      own.local->forget(subject);
    }
  });
  if (resets(c) && !c.ec) forget_cool_down(c, joint_room);
}

/// A store may lose the marker of a settlement; this process does not settle the decision again.
void remember_settlement(const check& c) {
  const std::uint64_t id = settlement_id_of(c);
  if (id != 0 && c.limiter->store->may_forget()) settled_ids::of_process().add(id);
}

/// What is left of a cool-down that the answer names; zero if it names none.
std::chrono::microseconds cool_down_left(const check& c) {
  if (c.traits.waits) return as<acquire_request>(c).cool_down_left;
  return c.answer.cooling_down ? c.answer.retry_after : std::chrono::microseconds{0};
}

/// Notes a cool-down that the answer names, counts it, and tells the event handler if it is news.
void meet_cool_down(const check& c, std::chrono::microseconds left) noexcept {
  const limiter_impl& own = impl_of(*c.limiter);
  const std::string_view subject = c.subject.view();
  const time_point until = c.answer.decided_at + left;
  const auto* const asked = cools_down(c) ? &as<cool_down_request>(c) : nullptr;
  if (own.met->note(subject, until, left, std::chrono::steady_clock::now())) {
    // A longer one was there already. A guess may have been doubled.
    const bool is_own = asked != nullptr && c.units > 0 &&
                        left.count() <= std::max(c.units, asked->longest_guess);
    own.tally->cool_down_begun(is_own);
    own.report({.what = event_kind::cool_down_begun,
                .origin = is_own ? asked->origin : cool_down_origin::elsewhere,
                .until = until},
               subject);
  }
  // The answer to a call that told of a served one is no reason to tell it again.
  if (asked == nullptr || c.units > 0) own.met->await_service(subject);
  if (!c.answer.clamped) return;
  own.tally->cool_down_clamped();
  own.report({.what = event_kind::cool_down_clamped, .origin = asked->origin, .until = until},
             subject);
}

/// If a check was to tell the store of a served call, the next one does.
void tell_again(const check& failed) noexcept {
  if (!cools_down(failed) || failed.units > 0) return;
  if (as<cool_down_request>(failed).longest_guess == 0) return;
  impl_of(*failed.limiter).met->await_service(failed.subject.view());
}

/// Tells this process's waiters of a cool-down that the answer names, and adds jitter to a refusal
/// by it. The answer to a joint check does not say whose cool-down it is.
void note_cool_down(check& c, waiting::waiting_room& joint_room) {
  const std::chrono::microseconds left = cool_down_left(c);
  if (left.count() > 0 && c.further().empty()) {
    meet_cool_down(c, left);
    const std::string_view subject = c.subject.view();
    impl_of(*c.limiter).room->cool_down(c.limiter, subject, left);
    joint_room.cool_down(c.limiter, subject, left);
  }
  if (!c.answer.cooling_down) return;
  // cool_down() itself is answered with the exact time.
  if (!cools_down(c)) c.answer.retry_after += jitter(c.answer.retry_after);
}

/// Makes the caller's result out of the store's answer or error.
void decorate(check& c, waiting::waiting_room& joint_room) {
  if (is_record(c) && !c.ec) {
    if (c.limiter->answers_locally) remember(c);
    if (!c.answer.cooling_down) return sign(c);
  }
  forget_local_answers(c, joint_room);
  if (c.flight.is_detached) {
    if (!c.ec) sign(c);  // a waiter may get the reservation of a caller that has left
    return;
  }
  // A failed take of local units: the failure policy is for checks of callers.
  if (is_record(c) && c.flight.is_internal) return;
  apply_failure_policy(c);
  if (c.ec) return tell_again(c);
  remember_settlement(c);
  sign(c);
  if (cools_down(c)) c.answer.clamped = as<cool_down_request>(c).was_clamped;
  note_cool_down(c, joint_room);
}

/// Prepares the result of a check that its store has finished, other than a plain record: applies
/// the failure policy, notes for later checks what the answer says, writes the receipt, and adds
/// jitter to the retries in a cool-down. Without memory, the check ends with the store's own answer
/// or error: an exception would leave the check without an owner.
void conclude(check& c, waiting::waiting_room& joint_room) {
  try {
    decorate(c, joint_room);
  } catch (const std::bad_alloc&) {
  }
}

/// True for the common case: an answered record of one limiter. Only its receipt is missing.
bool is_plain(const check& c) {
  return is_record(c) && !c.ec && !c.answer.cooling_down && c.further().empty() &&
         !c.limiter->answers_locally;
}

/// Writes its receipt; inline, because nearly every check gets here. True if the call is to be
/// counted as one that the store has allowed.
inline bool sign_plain(check& c, random_numbers& numbers) {
  if (!took_units(c)) return false;
  c.flight.is_counted = true;
  if (c.limiter->can_settle) {
    write_receipt(c, numbers.next(), c.limiter->origin_of(subject_hash(c)), c.units);
  }
  return true;
}

/// Counts allowed calls that follow each other at one limiter together.
class allowed_calls {
 public:
  void add(const limiter_spec& limiter) noexcept {
    if (&limiter != limiter_) {
      count();
      limiter_ = &limiter;
    }
    ++calls_;
  }
  /// Called before the checks are handed over: they may hold the last handle of a limiter.
  void count() noexcept {
    if (calls_ != 0) impl_of(*limiter_).tally->add_allowed(std::exchange(calls_, 0));
  }

 private:
  const limiter_spec* limiter_ = nullptr;
  std::uint64_t calls_ = 0;
};

/// True for a check of acquire() that has no result yet: its waiting room has it.
bool is_taken_in(check& c, waiting::waiting_room& joint_room) {
  if (!c.traits.waits) return false;
  const limiter_impl& own = impl_of(*c.limiter);
  return (c.further().empty() ? *own.room : joint_room).takes(c, own.waiting_rules);
}

}  // namespace

completion::completion(const boost::asio::any_io_executor& executor)
    : executor_(executor), ready_(std::make_shared<delivery_queue>()) {}

void completion::complete(check& c) {
  if (is_plain(c)) {
    random_numbers numbers;
    if (sign_plain(c, numbers)) impl_of(*c.limiter).tally->add_allowed(1);
  } else {
    conclude(c, joint_room_);
    if (is_taken_in(c, joint_room_)) return;
  }
  if (c.at_store) return ready_->add(executor_, c);
  c.finish(delivery::post);
}

void completion::complete(check_list&& done) {
  random_numbers numbers;
  allowed_calls calls;
  for (auto it = done.begin(); it != done.end();) {
    check& c = *it++;
    if (is_plain(c)) {
      if (sign_plain(c, numbers)) calls.add(*c.limiter);
      continue;
    }
    conclude(c, joint_room_);
    if (!c.traits.waits && !c.flight.is_detached) continue;
    c.line.unlink();
    if (c.traits.waits) {
      if (!is_taken_in(c, joint_room_)) done.insert(it, c);
    } else {
      c.finish(delivery::post);
    }
  }
  calls.count();
  delivery_batch::post(executor_, std::move(done));
}

void completion::wait(check& c) { joint_room_.arrive(c, impl_of(*c.limiter).waiting_rules); }

void completion::cancel(check& c, cancel_scope scope) { joint_room_.cancel(c, scope); }

void completion::close(const std::shared_ptr<void>& keep_alive) { joint_room_.close(keep_alive); }

void completion::context_shut_down() noexcept {
  executor_ = {};
  ready_->context_shut_down();
  joint_room_.context_shut_down();
}

}  // namespace weir::detail
