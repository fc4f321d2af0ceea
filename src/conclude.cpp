#include "conclude.hpp"

#include <algorithm>
#include <random>

#include "failure_policy.hpp"

namespace weir::detail {
namespace {

/// Whoever is held back would come again at the same microsecond as all the others.
std::chrono::microseconds spread(std::chrono::microseconds pause) {
  constexpr std::chrono::microseconds most = std::chrono::seconds{1};
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto width = std::min(pause / 10, most);
  return std::chrono::microseconds(
      std::uniform_int_distribution<std::int64_t>(0, width.count())(random));
}

}  // namespace

bool conclude(check& c) {
  if (c.unwanted) return false;
  apply_failure_policy(c);
  if (c.ec) return false;
  if (c.kind == check_kind::acquire && c.answer.allowed) {
    return c.answer.delay.count() > 0 && !c.from_line;
  }
  if (c.kind == check_kind::cool_down) {
    if (c.was_cut) c.ec = error::pause_too_long;
  } else if (c.answer.held) {
    c.answer.retry_after += spread(c.answer.retry_after);
  }
  return false;
}

}  // namespace weir::detail
