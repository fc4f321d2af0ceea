#include "check/give_back.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"

namespace weir::detail {
namespace {

using clock = std::chrono::steady_clock;

/// Bounds on give-backs that wait for a connection: how long each waits, and how many per process.
constexpr std::chrono::seconds shortest_wait{1}, longest_wait{30};
static_assert(longest_wait < std::chrono::microseconds(policies::shortest_marker_life),
              "a repeated give-back could be done twice");
constexpr int most_waiting = 10'000;
constexpr int most_attempts = 4;

std::atomic<int> waiting_for_connection{0};

class give_back final : public joint_check_of<settle_request> {
 public:
  give_back(taken_units&& what, check* caller)
      : joint_check_of(std::move(what.limiter), arguments_of(what)), caller_(caller) {
    asked.id = std::max<std::uint64_t>(1, random_number());
    flight.is_detached = true;
    wait_for_connection();
  }

  ~give_back() {
    if (waits_for_connection_) waiting_for_connection.fetch_sub(1, std::memory_order_relaxed);
  }

  void finish(delivery how) override {
    std::unique_ptr<give_back> self(this);
    if (caller_ != nullptr) {
      caller_->ec = ec ? error::outcome_unknown : error::store_closed;
      caller_->answer = {};
      return caller_->finish(how);
    }
    if (how == delivery::discard || !may_try_again()) return;
    // This object may hold the last handle of the store: keep a copy while starting.
    const auto store = limiter->store;
    store->start(*self.release());
  }

 private:
  // One statement for each: g++ 12 destroys members of an aggregate twice if a later one throws.
  static arguments arguments_of(taken_units& what) {
    arguments all;
    all.first.subject = std::move(what.subject);
    all.first.units = what.units;
    all.first.asked.cause = settle_cause::give_back;
    all.first.asked.about = what.about;
    all.first.asked.found = std::move(what.found);
    all.further = {std::move(what.further), what.about.further};
    return all;
  }

  void wait_for_connection() {
    if (caller_ != nullptr) return;  // the store is closing and does not reconnect
    waits_for_connection_ = waiting_for_connection.fetch_add(1, std::memory_order_relaxed) <
                            most_waiting;
    if (!waits_for_connection_) {
      waiting_for_connection.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    // After reset_after no unit is in use any more, so there is nothing to give back.
    timeout = std::clamp<std::chrono::microseconds>(asked.about.reset_after, shortest_wait,
                                                    longest_wait);
    until_ = clock::now() + timeout;
  }

  /// True if the give-back was sent without an answer, or lost to other processes, and may be
  /// repeated. If the first one ran, its marker makes the repetition a no-op.
  bool may_try_again() {
    const bool may_pass = ec == error::outcome_unknown || ec == error::protocol_error ||
                          ec == error::store_contention;
    if (!may_pass || !waits_for_connection_ || ++attempts_ == most_attempts) return false;
    timeout = std::chrono::duration_cast<std::chrono::microseconds>(until_ - clock::now());
    make_idle(*this);
    return timeout.count() > 0;
  }

  bool waits_for_connection_ = false;
  int attempts_ = 0;
  clock::time_point until_{};
  check* const caller_;  // finished after this check; may be null
};

class stand_in final : public joint_check_of<acquire_request> {
 public:
  explicit stand_in(const check& sent)
      : joint_check_of(std::shared_ptr(sent.limiter), arguments_of(sent)) {
    flight.is_detached = true;
  }

  void finish(delivery) override { delete this; }

 private:
  static arguments arguments_of(const check& sent) {
    arguments all;
    all.first.subject = sent.subject;
    all.first.units = sent.units;
    const auto& asked = as<acquire_request>(sent);
    all.first.asked = {.max_wait = asked.max_wait,
                       .cool_downs = asked.cool_downs,
                       .forgotten = asked.forgotten,
                       .arrival = asked.arrival};
    all.further.terms.assign(sent.further().begin(), sent.further().end());
    return all;
  }
};

}  // namespace

check& stand_in_for(const check& sent) { return *new stand_in(sent); }

check& make_give_back(taken_units what, check* caller) {
  return *new give_back(std::move(what), caller);
}

}  // namespace weir::detail
