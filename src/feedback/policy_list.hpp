#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "feedback/header_lines.hpp"

namespace weir::feedback {

/// One policy of RateLimit-Policy.
struct stated_policy {
  std::string_view name;  ///< empty in drafts without policy names
  std::optional<std::int64_t> quota;
  bool of_requests = true;
};

/// The policies of a response, up to a number far above that of any vendor. A response with more
/// has none here, so that their order does not matter.
class policy_list {
 public:
  /// Adds the policies of RateLimit-Policy. If two have the same name, the lower quota counts.
  void add_field(const header_lines& lines) noexcept;

  /// Null if no policy has this name.
  const stated_policy* find(std::string_view name) const noexcept;

  /// The lowest quota of requests that any policy states.
  std::optional<std::int64_t> lowest_quota() const noexcept;

 private:
  static constexpr std::size_t most = 16;

  void add(const stated_policy& policy) noexcept;

  std::array<stated_policy, most> policies_{};
  std::size_t count_ = 0;
  bool too_many_ = false;
};

}  // namespace weir::feedback
