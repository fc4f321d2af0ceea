#include "weir/record_all.hpp"

#include <stdexcept>

namespace weir::detail {

joint_call join(std::span<const claim> claims) {
  if (claims.empty()) throw std::invalid_argument("weir: the list of claims is empty");
  const claim& first = claims.front();
  joint_call call{first.limiter->core_, copy_of_subject(first.subject), first.cost};
  for (const claim& c : claims.subspan(1)) {
    call.further.terms.push_back({c.limiter->core_, copy_of_subject(c.subject), c.cost});
  }
  return call;
}

joint_call join_settlement(std::span<const claim> claims, settle_how how) {
  joint_call call = join(claims);
  if (how == settle_how::refund) {
    call.cost = 0;
    for (term& t : call.further.terms) t.units = 0;
  }
  return call;
}

}  // namespace weir::detail
