#include "check/flight.hpp"

namespace weir::detail {

namespace {

/// Makes an empty decision. Compilers clear the whole struct at once with an instruction that is
/// slow for 144 bytes (`rep stos`), and its parts with a few wide stores.
void make_empty(decision& d) noexcept {
  static_assert(sizeof(void*) != 8 || sizeof(decision) == 144, "make_empty() lacks a field");
  d.allowed = d.cooling_down = d.clamped = false;
  d.source = source::store;
  d.tier = -1;
  d.failure = error{};
  d.limit = d.used = d.remaining = 0;
  d.retry_after = d.reset_after = d.delay = std::chrono::microseconds{0};
  d.decided_at = {};
  d.receipt.id = d.receipt.origin = 0;
  d.receipt.cost = d.receipt.counted_at = 0;
  for (receipt::bucket& b : d.receipt.buckets) b = {};
}

}  // namespace

check::check(check_kind what, request_traits follows, std::shared_ptr<const limiter_spec>&& owner,
             short_text&& name, std::chrono::microseconds deadline_from_now,
             std::int64_t number) noexcept
    : kind(what),
      traits(follows),
      frame_hint(reinterpret_cast<std::uintptr_t>(&name)),
      limiter(std::move(owner)),
      timeout(deadline_from_now),
      units(number),
      subject(std::move(name)) {
  make_empty(answer);
}

check::~check() = default;

std::chrono::steady_clock::time_point sent_at(const check& c) noexcept { return c.flight.sent; }

}  // namespace weir::detail
