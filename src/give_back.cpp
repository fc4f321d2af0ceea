#include "give_back.hpp"

#include "limiter_core.hpp"

namespace weir::detail {
namespace {

class unwanted_check final : public check {
 public:
  unwanted_check(const check& of, check_kind kind)
      : check(of.limiter, request{.kind = kind,
                                  .subject = of.subject,
                                  .cost = of.cost,
                                  .further = of.further,
                                  .max_wait = of.max_wait}) {
    unwanted = true;
    answer = of.answer;
    found = of.found;
  }

  void finish(delivery how) override {
    const std::unique_ptr<unwanted_check> self(this);
    if (kind != check_kind::acquire || ec || !answer.allowed || how == delivery::discard) return;
    // The store may end with this object's handle on it.
    const auto store = limiter->store;
    store->start(make_give_back(*this));
  }
};

}  // namespace

check& stand_in_for(const check& sent) { return *new unwanted_check(sent, check_kind::acquire); }

check& make_give_back(const check& booked) {
  return *new unwanted_check(booked, check_kind::give_back);
}

}  // namespace weir::detail
