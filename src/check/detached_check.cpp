#include "check/detached_check.hpp"

#include <algorithm>
#include <atomic>

#include "check/limiter_spec.hpp"
#include "check/random_number.hpp"

namespace weir::detail {
namespace {

using clock = std::chrono::steady_clock;

/// Bounds on give-backs that wait for a connection: how long each waits, and how many per process.
/// The store keeps a give-back's marker for a minute, which must be longer than longest_patience,
/// or a repeated give-back could be done twice.
constexpr std::chrono::seconds shortest_patience{1}, longest_patience{30};
constexpr int most_patient = 10'000;
constexpr int most_attempts = 4;

std::atomic<int> patient{0};

class detached_check final : public check {
 public:
  detached_check(const check& of, check_kind kind, check* told = nullptr)
      : check(of.limiter, request{.kind = kind,
                                  .subject = of.subject,
                                  .cost = of.cost,
                                  .further = of.further,
                                  .max_wait = of.max_wait}),
        caller_(told) {
    unwanted = true;
    answer = of.answer;
    found = of.found;
    if (kind == check_kind::give_back) wait_for_connection();
  }

  ~detached_check() {
    if (is_patient_) patient.fetch_sub(1, std::memory_order_relaxed);
  }

  void finish(delivery how) override {
    std::unique_ptr<detached_check> self(this);
    if (caller_ != nullptr) {
      caller_->ec = ec ? error::outcome_unknown : error::store_closed;
      caller_->answer = {};
      return caller_->finish(how);
    }
    if (how == delivery::discard) return;
    // This object may hold the last handle of the store: keep a copy while starting.
    const auto store = limiter->store;
    if (kind == check_kind::acquire) {
      if (!ec && answer.allowed) store->start(make_give_back(*this));
    } else if (may_try_again()) {
      store->start(*self.release());
    }
  }

 private:
  void wait_for_connection() {
    once = std::max<std::uint64_t>(1, random_number());
    if (caller_ != nullptr) return;  // the store is closing and does not reconnect
    is_patient_ = patient.fetch_add(1, std::memory_order_relaxed) < most_patient;
    if (!is_patient_) {
      patient.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    // After reset_after no unit is in use any more, so there is nothing to give back.
    timeout = std::clamp<std::chrono::microseconds>(answer.reset_after, shortest_patience,
                                                    longest_patience);
    until_ = clock::now() + timeout;
  }

  /// True if the give-back was sent without an answer and may be repeated. If the first one ran,
  /// its marker makes the repetition a no-op.
  bool may_try_again() {
    const bool was_sent = ec == error::outcome_unknown || ec == error::protocol_error;
    if (!was_sent || !is_patient_ || ++attempts_ == most_attempts) return false;
    timeout = std::chrono::duration_cast<std::chrono::microseconds>(until_ - clock::now());
    ec = {};
    stage = check_stage::idle;
    resends = 0;
    return timeout.count() > 0;
  }

  bool is_patient_ = false;
  int attempts_ = 0;
  clock::time_point until_{};
  check* const caller_;  // finished after this check; may be null
};

}  // namespace

check& stand_in_for(const check& sent) { return *new detached_check(sent, check_kind::acquire); }

check& make_give_back(const check& booked) {
  return *new detached_check(booked, check_kind::give_back);
}

void give_back_and_tell(std::vector<returned_reservation> turns) {
  if (turns.empty()) return;
  const auto turn_of = [](const returned_reservation& t) {
    return t.booked->answer.decided_at + t.booked->answer.delay;
  };
  std::stable_sort(turns.begin(), turns.end(),
                   [&](const returned_reservation& a, const returned_reservation& b) {
                     return turn_of(a) > turn_of(b);
                   });
  std::vector<check*> checks;
  for (const returned_reservation& t : turns) {
    checks.push_back(new detached_check(*t.booked, check_kind::give_back, t.caller));
  }
  const auto store = checks.front()->limiter->store;
  store->start_all(checks);
}

}  // namespace weir::detail
