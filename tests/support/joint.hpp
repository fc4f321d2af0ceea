#pragma once

#include "weir/decision.hpp"

namespace weir::test {

/// The decision of f(further), and what f has written there.
template <class F>
joint_decision joint(F&& f) {
  further_receipt further;
  const decision d = f(&further);
  return {d, further};
}

}  // namespace weir::test
