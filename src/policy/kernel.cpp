#include "policy/kernel.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "policy/require_valid.hpp"

namespace weir::policies {
namespace {

constexpr span max_window = std::int64_t{1} << 50;
constexpr span max_sliding_window = std::int64_t{1} << 48;
// A log sums up to three times the limit before it drops what no longer matters.
constexpr units max_count_refused_log = std::int64_t{1} << 50;

void refuse(std::string_view policy, std::string_view rule, std::int64_t got) {
  std::string text(policy);
  text += ": ";
  text += rule;
  text += ", got ";
  text += std::to_string(got);
  require_valid(false, text);
}

std::string between(std::string_view what, std::int64_t low, std::int64_t high) {
  return std::string(what) + " must be between " + std::to_string(low) + " and " +
         std::to_string(high);
}

void require(std::string_view policy, std::string_view what, std::int64_t value, std::int64_t low,
             std::int64_t high) {
  if (value < low || value > high) refuse(policy, between(what, low, high), value);
}

void require_limit(std::string_view policy, units limit, units high) {
  if (limit == unlimited) return;
  if (limit < 1 || limit > high) {
    refuse(policy, between("limit", 1, high) + " or weir::unlimited", limit);
  }
}

meter compile_meter(const std::string& policy, const std::string& rate_name, const rate& r,
                    std::string_view size_name, units size, bool leaky) {
  require(policy, rate_name + ".count", r.count, 1, max_units);
  require(policy, rate_name + ".period (us)", r.period.count(), 1, max_window);
  require(policy, size_name, size, 1, max_units);
  if (!meter::fits(r.count, r.period.count(), size)) {
    const wide most = ((wide{1} << 51) * r.count - 1) / r.period.count();
    refuse(policy,
           std::string(size_name) + " must not exceed " +
               std::to_string(static_cast<std::int64_t>(most < max_units ? most : max_units)) +
               " at this rate (filling or draining it may take 71 years at the most)",
           size);
  }
  return meter(r.count, r.period.count(), size, leaky);
}

struct compiler {
  std::string place = {};  // before a policy's name: which tier it is

  kernel operator()(const weir::fixed_window& p) const {
    const std::string name = place + "fixed_window";
    require_limit(name, p.limit, max_units);
    require(name, "window (us)", p.window.count(), 1, max_window);
    require(name, "anchor", static_cast<int>(p.anchor), 0, 1);
    if (p.anchor == anchor::epoch) {
      require(name, "offset (us)", p.offset.count(), 0, p.window.count() - 1);
    } else if (p.offset.count() != 0) {
      refuse(name, "offset needs anchor::epoch", p.offset.count());
    }
    return fixed_window(p);
  }
  kernel operator()(const weir::sliding_log& p) const {
    const std::string name = place + "sliding_log";
    require_limit(name, p.limit, p.count_refused ? max_count_refused_log : max_units);
    require(name, "window (us)", p.window.count(), 1, max_window);
    require(name, "resolution (us)", p.resolution.count(), 0, p.window.count());
    return sliding_log(p);
  }
  kernel operator()(const weir::sliding_window& p) const {
    const std::string name = place + "sliding_window";
    require(name, "window (us)", p.window.count(), 1, max_sliding_window);
    require_limit(name, p.limit, sliding_window::most(p.window.count()));
    return sliding_window(p);
  }
  kernel operator()(const weir::token_bucket& p) const {
    return compile_meter(place + "token_bucket", "refill", p.refill, "capacity", p.capacity, false);
  }
  kernel operator()(const weir::gcra& p) const {
    return compile_meter(place + "gcra", "rate", p.rate, "burst", p.burst, false);
  }
  kernel operator()(const weir::leaky_bucket& p) const {
    return compile_meter(place + "leaky_bucket", "leak", p.leak, "capacity", p.capacity, true);
  }
};

}  // namespace

kernel compile(const weir::policy& policy) { return std::visit(compiler{}, policy); }

std::vector<kernel> compile(const weir::tiers& tiers) {
  std::vector<kernel> kernels;
  for (const weir::policy& policy : tiers) {
    compiler one;
    if (tiers.size() > 1) one.place = "tier " + std::to_string(kernels.size()) + ": ";
    kernels.push_back(std::visit(one, policy));
    if (tiers.size() > 1 && counts_refused(kernels.back())) {
      refuse("tiers", "count_refused must be false: what one tier refuses, no tier counts", 1);
    }
  }
  return kernels;
}

}  // namespace weir::policies

namespace weir {

tiers::tiers(std::span<const policy> each) : size_(each.size()) {
  policies::require_valid(size_ >= 1 && size_ <= max_size,
                          "tiers: there must be 1 to " + std::to_string(max_size) +
                              " policies, got " + std::to_string(size_));
  std::copy(each.begin(), each.end(), policies_.begin());
}

}  // namespace weir
