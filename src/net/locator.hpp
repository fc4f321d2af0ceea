#pragma once

#include <functional>

#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// Tells a stream where its server is, before each attempt to connect. All calls and reports are on
/// the stream's strand.
class locator {
 public:
  /// Zero and the address, or why there is none.
  using report = std::function<void(error, const redis_address&)>;

  /// Reports exactly once, never inside the call. `elsewhere`: the last address has not served. One
  /// ask() at a time. The report must not own this object.
  virtual void ask(bool elsewhere, report r) = 0;
  /// Ends a pending ask(): posts its report with an error.
  virtual void leave() = 0;

 protected:
  ~locator() = default;
};

}  // namespace weir::net
