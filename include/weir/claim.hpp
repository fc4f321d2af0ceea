#pragma once

#include <concepts>
#include <cstdint>
#include <span>
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

namespace detail {

/// A claim, or several. Braces cannot be deduced to such a type, so `{}` in its place means the
/// options that follow it.
template <class T>
concept claim_or_claims = std::convertible_to<const T&, const claim&> ||
                          std::convertible_to<const T&, std::span<const claim>>;

inline std::span<const claim> claims_in(const claim& one) noexcept { return {&one, 1}; }
inline std::span<const claim> claims_in(std::span<const claim> all) noexcept { return all; }

}  // namespace detail

}  // namespace weir
