#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weir/policy.hpp"

namespace weir::test {

/// What a line of waiters should look like, as a reader of the documentation would work it out with
/// pencil and paper: whoever comes gets the first time that every policy allows, behind those who
/// came before. It knows nothing of src/policy. Times in microseconds; the clock never steps back.
class expected_reservations {
 public:
  explicit expected_reservations(std::span<const policy> policies);
  ~expected_reservations();
  expected_reservations(expected_reservations&&) noexcept;

  /// For one who asks now. Both are the same, but where a bucket has got back a turn that others
  /// stood behind. How much of it is of use is stated as a bound: `latest`.
  struct turn {
    std::int64_t earliest;
    std::int64_t latest;
  };
  turn turn_of(std::int64_t now, std::int64_t cost) const;

  /// Returns the booking's number, counted from 0.
  std::size_t book(std::int64_t now, std::int64_t turn, std::int64_t cost);
  void give_back(std::int64_t now, std::size_t number);

  struct booking {
    std::int64_t turn;
    std::int64_t cost;
    bool stands = true;
  };
  const std::vector<booking>& bookings() const noexcept { return bookings_; }

  /// One policy's view of it.
  class tier;

 private:
  std::vector<booking> bookings_;
  std::vector<std::unique_ptr<tier>> tiers_;
};

}  // namespace weir::test
