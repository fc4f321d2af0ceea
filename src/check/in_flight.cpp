#include "check/in_flight.hpp"

#include <type_traits>

namespace weir::detail {

static_assert(sizeof(in_flight) == sizeof(flight_storage), "change flight_storage as well");
static_assert(alignof(in_flight) <= alignof(flight_storage));
static_assert(std::is_standard_layout_v<flight_storage> && std::is_standard_layout_v<in_flight>);

flight_storage::flight_storage() noexcept { in_flight::begin(*this); }

flight_storage::~flight_storage() { in_flight::of(*this).~in_flight(); }

std::chrono::steady_clock::time_point sent_at(const check& c) noexcept { return flight_of(c).sent; }

}  // namespace weir::detail
