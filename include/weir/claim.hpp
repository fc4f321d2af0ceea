#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace weir {

class limiter;

/// A limiter, a subject and a cost, as record_all() takes them. limiter::on() makes a claim. It
/// holds a pointer and a view: use it only in the call for which it was made.
struct claim {
  const weir::limiter* limiter;
  std::string_view subject;
  std::int64_t cost;
};
static_assert(std::is_trivially_destructible_v<claim>);

}  // namespace weir
