#include "redis/script/script_call.hpp"

namespace weir::redis {

std::size_t script_of(const script_call& c) noexcept {
  if (c.settles()) return settlement;
  return script_for(kernel_list_of(c.tiers, c.traits.waits,
                                   [](const call_tier& t) -> auto& { return t.kernel; }));
}

std::size_t reply_width(const call_tier& t) noexcept {
  return std::visit([]<class Kernel>(const Kernel&) { return Kernel::reply_width; }, t.kernel);
}

std::size_t reply_width(std::span<const call_tier> tiers) noexcept {
  std::size_t width = 0;
  for (const call_tier& t : tiers) width += reply_width(t);
  return width;
}

}  // namespace weir::redis
