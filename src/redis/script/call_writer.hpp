#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "redis/script/script_call.hpp"

namespace weir::redis {

/// Appends the argument of a script for checks that stands before the counts; see
/// policy/lua/check.lua. `max_wait`: -1 for checks.
void pack_argument(std::string& to, std::span<const call_tier> tiers, bool has_common_path,
                   bool may_share_keys, std::int64_t max_wait);

/// Writes calls with checks.
class call_writer {
 public:
  /// Appends the call to `out`: with the script's name, or its text if it has_text.
  void write(std::string& out, const script_call& c);

 private:
  /// What stands around the keys in a call (not of settlements). It is kept, because small calls
  /// would spend more on it than on their keys. It is the same for calls of one limiter, cost and
  /// max_wait with equal numbers of keys and counts.
  struct frame {
    std::vector<call_tier> tiers;      // none: there is no frame yet
    std::size_t keys = 0, counts = 0;  // how many
    std::size_t script = 0;
    std::int64_t max_wait = 0;
    bool may_share_keys = false;
    std::string head;
    std::string constants;
  };

  const frame& frame_of(const script_call& c, std::size_t counts);
  void write_by_name(std::string& out, const script_call& c);
  void write_framed(std::string& out, const script_call& c);
  void write_settlement(std::string& out, const script_call& c);
  void write_reset(std::string& out, const script_call& c);

  frame last_;
  std::string scratch_;  // for keys
};

}  // namespace weir::redis
