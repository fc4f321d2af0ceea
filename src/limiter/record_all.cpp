#include "weir/record_all.hpp"

#include <stdexcept>

namespace weir::detail {

joint_call join(std::span<const claim> claims, check_kind kind, joint_options options) {
  if (claims.empty()) throw std::invalid_argument("weir: a call of several limiters needs a claim");
  const claim& first = claims.front();
  joint_call call{
      first.limiter->core_, first.limiter->get_executor(),
      request{
          kind, copy_of_subject(first.subject), first.cost, options.timeout, {}, options.max_wait}};
  for (const claim& c : claims.subspan(1)) {
    call.asked.further.push_back({c.limiter->core_, copy_of_subject(c.subject), c.cost});
  }
  return call;
}

joint_call join_settlement(std::span<const claim> claims, settle_how how, joint_options options) {
  joint_call call = join(claims, check_kind::settle, options);
  if (how == settle_how::refund) {
    call.asked.cost = 0;
    for (term& t : call.asked.further) t.cost = 0;
  }
  return call;
}

}  // namespace weir::detail
