#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weir/policy.hpp"

namespace weir::test {

/// The reservations that the documentation promises, computed in the plainest way, without
/// src/policy: each request gets the first time that every policy allows, after all earlier
/// reservations. Times are in microseconds; the clock never steps back.
class expected_reservations {
 public:
  explicit expected_reservations(std::span<const policy> policies);
  ~expected_reservations();
  expected_reservations(expected_reservations&&) noexcept;

  /// For a request made now. The two differ only where a bucket got back a reservation that others
  /// were reserved after; how many of its units can be used again is a bound, `latest`.
  struct turn {
    std::int64_t earliest;
    std::int64_t latest;
  };
  turn turn_of(std::int64_t now, std::int64_t cost) const;

  /// Returns the reservation's number, counted from 0.
  std::size_t book(std::int64_t now, std::int64_t turn, std::int64_t cost);
  void give_back(std::int64_t now, std::size_t number);

  struct reservation {
    std::int64_t turn;
    std::int64_t cost;
    bool stands = true;
  };
  const std::vector<reservation>& reservations() const noexcept { return reservations_; }

  /// One policy's view of it.
  class tier;

 private:
  std::vector<reservation> reservations_;
  std::vector<std::unique_ptr<tier>> tiers_;
};

}  // namespace weir::test
