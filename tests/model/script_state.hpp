#pragma once

#include "model/own_script.hpp"
#include "support/doubles.hpp"
#include "support/text.hpp"

/// Policies' scripts in a real server, for tests of the state that they leave and find there.
namespace weir::model::script_state {

using namespace std::chrono_literals;

inline constexpr std::int64_t t0 = 1'790'000'000'123'456;

/// One of each kind, each refusing the fourth request; windows and refills of a few milliseconds,
/// and below one.
inline const policy all_policies[] = {
    fixed_window{3, 5ms},
    fixed_window{3, 700us, anchor::epoch, 99us},
    fixed_window{.limit = 3, .window = 5ms, .count_refused = true},
    sliding_log{3, 5ms},
    sliding_log{3, 5ms, 300us},
    sliding_log{.limit = 3, .window = 700us, .count_refused = true},
    sliding_window{3, 5ms},
    sliding_window{.limit = 3, .window = 700us, .count_refused = true},
    token_bucket{3, per_second(1000)},
    token_bucket{3, {7, 3s}},
    gcra{{3, 70us}, 3},
    leaky_bucket{3, per_day(999'983)},
};

/// How much longer than its state a key may stay, in microseconds, beyond the grace.
inline std::int64_t most_longer(const policy& p) {
  return std::visit(
      []<class Kernel>(const Kernel&) {
        return policies::is_policy(Kernel::kind) ? policies::grid : 0;
      },
      policies::compile(p));
}

using model::own_script;
using model::script_fixture;
using test::doubles;

}  // namespace weir::model::script_state
