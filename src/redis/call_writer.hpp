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
  /// What stands around the keys in a call of one kernel's own script. It is the same for calls of
  /// one limiter and cost with as many keys and counts, and small calls would spend more on it than
  /// on their keys.
  struct frame {
    std::optional<call_tier> tier;     // none: there is no frame yet
    std::size_t script = 0;            // its index
    std::size_t keys = 0, counts = 0;  // how many
    std::string head;
    std::string constants;
  };

  const frame& frame_of(const script_call& c, std::size_t counts);
  void write_plain(std::string& out, const script_call& c);
  void write_reset(std::string& out, const script_call& c);

  frame last_;
  std::string scratch_;  // for keys
};

}  // namespace weir::redis
