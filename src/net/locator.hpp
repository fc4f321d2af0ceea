#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weir/error.hpp"

namespace weir::net {

/// Tells a stream where its server is, before each attempt to connect. All calls and reports are on
/// the stream's strand.
class locator {
 public:
  struct address {
    std::string host;
    std::uint16_t port = 0;
  };
  /// Zero and the address, or why there is none.
  using report = std::function<void(error, const address&)>;

  /// Reports exactly once, never inside the call. `elsewhere`: the last address has not served. One
  /// ask() at a time. The report must not own this object.
  virtual void ask(bool elsewhere, report r) = 0;
  /// Ends a pending ask(): posts its report with an error.
  virtual void leave() = 0;

 protected:
  ~locator() = default;
};

}  // namespace weir::net
