#include "conclude.hpp"

#include <algorithm>
#include <random>

#include "failure_policy.hpp"
#include "limiter_core.hpp"

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

/// Different for every decision, in all processes. SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014), from a place of the thread's own.
std::uint64_t new_id() {
  thread_local std::uint64_t state = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return std::max<std::uint64_t>(1, z ^ z >> 31);  // 0: no receipt
}

/// Of what was counted, and can be settled: the receipt.
void sign(check& c) {
  const bool counts = c.kind == check_kind::record || c.kind == check_kind::acquire;
  const limiter_core& limiter = *c.limiter;
  if (!counts || !c.answer.allowed || c.answer.source != source::store) return;
  if (!limiter.can_settle || !c.further.empty()) return;
  receipt& signed_one = c.answer.receipt;
  signed_one.id = new_id();
  signed_one.of = limiter.origin_of(c.subject.view());
  signed_one.cost = c.cost;
}

}  // namespace

bool conclude(check& c) {
  if (c.unwanted) return false;
  apply_failure_policy(c);
  // What these had there was a part of the question.
  const bool asks_about_it = c.kind == check_kind::refund || c.kind == check_kind::charge ||
                             c.kind == check_kind::lower;
  if (c.ec && asks_about_it) c.answer = {};
  if (c.ec) return false;
  sign(c);
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
