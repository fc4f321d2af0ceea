#pragma once

#include <chrono>

namespace throttled {

/// What the vendor's documentation says.
struct vendor_limits {
  /// Calls in any second, wherever it begins.
  int per_second = 120;

  /// Calls per second in the long run. Unused calls are saved up, at most `saved_up` of them.
  int rate = 25;
  int saved_up = 150;

  /// Calls in flight at once.
  int at_once = 12;
};

}  // namespace throttled
