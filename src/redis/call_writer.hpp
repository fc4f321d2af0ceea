#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "redis/script_call.hpp"

namespace weir::redis {

/// Writes calls with checks.
class call_writer {
 public:
  /// Appends the call to `out`.
  void write(std::string& out, const script_call& c);

 private:
  /// What stands around the keys in a call of one kernel's own script. Calls of one limiter and
  /// cost mostly have the same, and a call of few keys would spend more on it than on the keys.
  struct frame {
    call_tier tier;
    std::size_t keys, counts;  // how many
    std::string head;
    std::string constants;
  };

  const frame& frame_of(const script_call& c, std::size_t counts);
  void write_plain(std::string& out, const script_call& c);
  void write_reset(std::string& out, const script_call& c);

  std::optional<frame> last_;
  std::string scratch_;  // for keys
};

}  // namespace weir::redis
