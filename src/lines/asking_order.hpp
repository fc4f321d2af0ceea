#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "lines/asking_line.hpp"

namespace weir::detail {

/// Lines with different claims may be refused by what they have in common: the total that all consumers share. If each asked
/// when there is room again, all but one would ask in vain, each time. So those whom the same claim refused ask one after the
/// other: the first alone, and after each one that passes without a refusal, twice as many. Who has passed and is refused again
/// stands behind the others.
///
/// Without a lock; whoever drives the lines calls note() after whatever happened in one of them.
class asking_order {
 public:
  /// A line that takes part.
  struct member {
    asking_line* asking = nullptr;
    std::string refused_by;  // whom it stands behind others for; empty if it does not
    std::uint64_t place = 0;
    std::uint64_t rounds = 0, passes = 0, grants = 0;  // of the line, when this was last noted
  };

  /// `released`: those that need not hold back any longer. They are to be told the time, and noted.
  void note(member& m, std::vector<member*>& released);

 private:
  struct gate {
    std::map<std::uint64_t, member*> members;  // in the order in which they were refused
    std::size_t width = 1;                     // the first so many may ask
  };

  static constexpr std::size_t most_at_once = 64;

  void stand_behind(member& m, const std::string& by);
  void leave(member& m, bool has_passed, std::vector<member*>& released);
  static void settle(gate& g, std::vector<member*>& released);

  std::unordered_map<std::string, gate> gates_;  // by who refused
  std::uint64_t places_ = 0;
};

}  // namespace weir::detail
