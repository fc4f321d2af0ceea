#pragma once

#include <chrono>

namespace throttled {

/// What the vendor's documentation says.
struct vendor_limits {
  /// So many in any second, wherever it begins.
  int per_second = 120;

  /// So many a second in the long run; what is not used is saved up, to so many.
  int rate = 25;
  int saved_up = 150;

  /// So many at once.
  int at_once = 12;
};

}  // namespace throttled
