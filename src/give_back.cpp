#include "give_back.hpp"

#include <algorithm>

#include "limiter_core.hpp"

namespace weir::detail {
namespace {

class unwanted_check final : public check {
 public:
  unwanted_check(const check& of, check_kind kind, check* told = nullptr)
      : check(of.limiter, request{.kind = kind,
                                  .subject = of.subject,
                                  .cost = of.cost,
                                  .further = of.further,
                                  .max_wait = of.max_wait}),
        caller_(told) {
    unwanted = true;
    answer = of.answer;
    found = of.found;
  }

  void finish(delivery how) override {
    const std::unique_ptr<unwanted_check> self(this);
    if (caller_ != nullptr) {
      caller_->ec = ec ? error::outcome_unknown : error::store_closed;
      caller_->answer = {};
      return caller_->finish(how);
    }
    if (kind != check_kind::acquire || ec || !answer.allowed || how == delivery::discard) return;
    // The store may end with this object's handle on it.
    const auto store = limiter->store;
    store->start(make_give_back(*this));
  }

 private:
  check* const caller_;  // told when this is done; nobody if null
};

}  // namespace

check& stand_in_for(const check& sent) { return *new unwanted_check(sent, check_kind::acquire); }

check& make_give_back(const check& booked) {
  return *new unwanted_check(booked, check_kind::give_back);
}

void give_back_and_tell(std::vector<returned_turn> turns) {
  if (turns.empty()) return;
  const auto turn_of = [](const returned_turn& t) {
    return t.booked->answer.at + t.booked->answer.delay;
  };
  std::stable_sort(turns.begin(), turns.end(), [&](const returned_turn& a, const returned_turn& b) {
    return turn_of(a) > turn_of(b);
  });
  std::vector<check*> checks;
  for (const returned_turn& t : turns) {
    checks.push_back(new unwanted_check(*t.booked, check_kind::give_back, t.caller));
  }
  const auto store = checks.front()->limiter->store;
  store->start_all(checks);
}

}  // namespace weir::detail
