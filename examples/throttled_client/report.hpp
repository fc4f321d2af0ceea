#pragma once

#include <optional>
#include <vector>

#include "crew.hpp"
#include "ledger.hpp"

namespace throttled {

/// One line for each process (none for one that was killed), and what the vendor has seen.
void print_report(const vendor_limits& limits, const vendor_report& seen,
                  const std::vector<std::optional<crew_report>>& processes);

/// One sentence. True if there was no violation, and the allowance was used well.
bool print_verdict(const vendor_report& seen);

}  // namespace throttled
