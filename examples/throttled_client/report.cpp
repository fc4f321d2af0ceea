#include "report.hpp"

#include <cstdio>

namespace throttled {

namespace {

constexpr double least_share = 0.97;

long long number(std::int64_t n) { return n; }

}  // namespace

void print_report(const vendor_limits& limits, const vendor_report& seen,
                  const std::vector<std::optional<crew_report>>& processes) {
  std::printf("\nprocess   calls answered   turned away   pauses taken   failed   leases lost\n");
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (const auto& p = processes[i]) {
      std::printf("%7zu   %14lld   %11lld   %12lld   %6lld   %11lld\n", i + 1, number(p->answered),
                  number(p->turned_away), number(p->paused), number(p->failed),
                  number(p->displaced));
    } else {
      std::printf("%7zu   (killed)\n", i + 1);
    }
  }
  std::printf("\nThe vendor's books              limit     most   violations\n");
  std::printf("  calls in any second        %8d %8d %12lld\n", limits.per_second,
              seen.most_per_second, number(seen.violations.per_second));
  std::printf("  calls a second, long run   %8d %8s %12lld\n", limits.rate, "",
              number(seen.violations.rate));
  std::printf("  calls at once              %8d %8d %12lld\n", limits.at_once, seen.most_at_once,
              number(seen.violations.at_once));
  std::printf("  calls in its pauses        %8d %8s %12lld\n", 0, "",
              number(seen.violations.in_pause));
  std::printf(
      "  of %lld calls that could have been made, %lld were served, and %lld were on their way "
      "when "
      "one of %d pauses\n  began: %.1f %% of the allowance\n",
      number(seen.allowance), number(seen.served), number(seen.on_their_way), seen.pauses,
      100 * seen.share());
}

bool print_verdict(const vendor_report& seen) {
  if (const auto violations = seen.violations.all(); violations != 0) {
    std::printf("\nFAILED: the vendor counted %lld violations.\n", number(violations));
    return false;
  }
  if (seen.share() < least_share) {
    std::printf("\nFAILED: only %.1f %% of the allowance was used; %.0f %% are due.\n",
                100 * seen.share(), 100 * least_share);
    return false;
  }
  std::printf("\nNo violation, and %.1f %% of the vendor's allowance was used.\n",
              100 * seen.share());
  return true;
}

}  // namespace throttled
