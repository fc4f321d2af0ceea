#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/policy.hpp"

namespace weir::test {

/// What went on at one line of waiters, in the order in which the store saw it.
class reservation_ledger {
 public:
  struct asked {
    std::int64_t at;  // the store's clock
    std::int64_t cost;
    std::int64_t max_wait;
    bool allowed;
    std::int64_t turn;  // if refused: when it would have been
  };

  /// Returns its number, counted from 0.
  std::size_t ask(const asked& what) {
    events_.push_back({what.at, asked_.size(), false});
    asked_.push_back(what);
    return asked_.size() - 1;
  }
  /// Gives back a reservation that was allowed. At most once for each.
  void give_back(std::int64_t at, std::size_t number) { events_.push_back({at, number, true}); }

  const asked& operator[](std::size_t number) const { return asked_.at(number); }
  std::size_t size() const noexcept { return asked_.size(); }

  struct totals {
    std::int64_t at_once = 0, reserved = 0, refused = 0, given_back = 0;
    std::int64_t overtook = 0;  // units that an earlier waiter had given back
    std::int64_t kept = 0;      // units that were not given back

    totals& operator+=(const totals& other);
    std::string text() const;
  };

  /// Reads it from the beginning. Throws, and says why, unless
  /// - each reservation has the time that it should have, see expected_reservations;
  /// - exactly the requests are reserved whose time lies within their max_wait;
  /// - no reservation comes before one that was reserved earlier and is kept; except in a bucket
  ///   without a log beside it, into units that a waiter ahead of both has given back;
  /// - the kept reservations exceed no window.
  totals check(std::span<const policy> policies) const;

  /// For runs in which only the last waiter ever left: each kept reservation is what it would be if
  /// the waiters that left had never come.
  void check_as_if_they_had_never_come(std::span<const policy> policies) const;

 private:
  struct event {
    std::int64_t at;
    std::size_t number;
    bool gives_back;
  };
  [[noreturn]] void fail(const event& e, const std::string& what) const;
  std::int64_t check_order(std::span<const policy> policies) const;

  std::vector<asked> asked_;
  std::vector<event> events_;
};

}  // namespace weir::test
