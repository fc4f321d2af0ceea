#pragma once

namespace weir::policies {

/// What a kernel is, and so what it offers; see kernel.hpp.
enum class kernel_kind {
  bucket,     ///< a policy whose state is a TAT, which a receipt carries
  window,     ///< a policy that counts what lies in a window; limiters of one key may have windows
              ///< of other lengths
  cool_down,  ///< has no limit; a decision does not number it among the tiers
  gate,       ///< counts leases: enter, renew and leave in place of acquire, settle and the like
};

/// True for what a policy compiles to.
constexpr bool is_policy(kernel_kind k) noexcept {
  return k == kernel_kind::bucket || k == kernel_kind::window;
}

}  // namespace weir::policies
