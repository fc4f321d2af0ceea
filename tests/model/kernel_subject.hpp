#pragma once

#include "policy/tier_set.hpp"

namespace weir::model {

/// One subject under one policy, served by the real kernel in C++. Copies are independent.
class kernel_subject {
 public:
  explicit kernel_subject(const policy& p) : kernel_(policies::compile(p)) {
    std::visit([&]<class K>(const K&) { state_.emplace<typename K::state>(); }, kernel_);
  }

  decision record(std::int64_t now, std::int64_t cost = 1) {
    return std::visit(
        [&]<class K>(const K& k) {
          return k.record(std::get<typename K::state>(state_), now, cost);
        },
        kernel_);
  }
  decision fetch(std::int64_t now, std::int64_t cost = 1) const {
    return std::visit(
        [&]<class K>(const K& k) {
          return k.fetch(std::get<typename K::state>(state_), now, cost);
        },
        kernel_);
  }
  /// For a turn.
  decision acquire(std::int64_t now, std::int64_t max_wait, std::int64_t cost = 1) {
    const policies::tier<policies::any_state> only[] = {{&kernel_, &state_, cost}};
    return policies::reserve_all<policies::any_state>(only, now, max_wait);
  }
  /// What a waiter keeps of its turn.
  struct turn {
    decision said;
    policies::tickets known;
    std::int64_t cost;

    std::int64_t when() const { return (said.decided_at + said.delay).time_since_epoch().count(); }
  };
  turn book(std::int64_t now, std::int64_t max_wait, std::int64_t cost = 1) {
    const policies::tier<policies::any_state> only[] = {{&kernel_, &state_, cost}};
    auto found = policies::found_in(only, now);
    const decision d = policies::reserve_all<policies::any_state>(only, now, max_wait);
    if (d.delay.count() == 0) found.clear();
    return {d, policies::tickets_of(d, std::move(found)), cost};
  }
  void give_back(std::int64_t now, const turn& t) {
    const policies::tier<policies::any_state> only[] = {{&kernel_, &state_, t.cost}};
    policies::settle_all(only, now, t.known);
  }
  /// From now on, a plan of the same kind.
  void become(const policy& p) { kernel_ = policies::compile(p); }
  std::int64_t ceiling() const {
    return std::visit([](const auto& k) { return k.ceiling(); }, kernel_);
  }
  std::int64_t matters_until() const {
    return std::visit(
        [&]<class K>(const K& k) { return k.matters_until(std::get<typename K::state>(state_)); },
        kernel_);
  }

 private:
  policies::kernel kernel_;
  policies::any_state state_;
};

}  // namespace weir::model
