#include "support/grants.hpp"

#include <algorithm>
#include <numeric>

#include "support/text.hpp"

namespace weir::test {
namespace {

__extension__ using wide = __int128;

std::string excess(const policy& p, const grant& last, const grant& since, wide sum) {
  return text_of(p) + ": " + std::to_string(static_cast<std::int64_t>(sum)) + " units from " +
         std::to_string(since.time) + " to " + std::to_string(last.time);
}

/// Each stretch from one grant to another: at most `burst`, and `count` per `period` for its
/// length. Of those that go out one by one, the last of the stretch is still to flow: only what
/// went before it must have. The first of the stretch may have been rounded up to its time.
std::optional<std::string> of_bucket(const policy& p, const std::vector<grant>& all, wide burst,
                                     const rate& r, bool leaky) {
  const wide count = r.count, period = r.period.count();
  const wide rounding = count - std::gcd(r.count, r.period.count());
  const wide most = burst * period + (period % count == 0 ? 0 : rounding);
  // For one that ends the stretch, all that could begin it are asked at once: by what is left of
  // the sum up to there when the flow since the beginning of time is taken off. The smallest such
  // number was before the worst stretch.
  wide sum = 0;
  wide smallest = 0;
  const grant* worst = nullptr;
  wide sum_before_worst = 0;
  for (const grant& g : all) {
    const wide flow = wide{g.time - all.front().time} * count;
    const wide here = sum * period - flow;
    if (worst == nullptr || here < smallest) {
      smallest = here;
      worst = &g;
      sum_before_worst = sum;
    }
    const wide with = leaky ? sum : sum + g.cost;
    if (with * period - flow - smallest > most) {
      return excess(p, g, *worst, with - sum_before_worst);
    }
    sum += g.cost;
  }
  return {};
}

/// Each stretch of `window`: at most `limit`.
std::optional<std::string> of_stretches(const policy& p, const std::vector<grant>& all, wide limit,
                                        std::int64_t window) {
  wide sum = 0;
  auto first = all.begin();
  for (const grant& g : all) {
    while (g.time - first->time >= window) sum -= first++->cost;
    sum += g.cost;
    if (sum > limit) return excess(p, g, *first, sum);
  }
  return {};
}

std::optional<std::string> of_windows(const fixed_window& p, const std::vector<grant>& all) {
  const std::int64_t length = p.window.count();
  const auto begin_for = [&](std::int64_t time) {
    if (p.anchor == anchor::first_request) return time;
    const std::int64_t into = (time - p.offset.count()) % length;
    return time - (into < 0 ? into + length : into);
  };
  wide sum = 0;
  std::int64_t begin = 0;
  const grant* first = nullptr;
  for (const grant& g : all) {
    if (first == nullptr || g.time >= begin + length) {
      first = &g;
      begin = begin_for(g.time);
      sum = 0;
    }
    sum += g.cost;
    if (sum > p.limit) return excess(p, g, *first, sum);
  }
  return {};
}

/// Each grant at its time, with what was counted before it in its window and the one before.
std::optional<std::string> of_two_windows(const sliding_window& p, const std::vector<grant>& all) {
  const std::int64_t length = p.window.count();
  std::int64_t number = 0;
  wide current = 0, previous = 0;
  const grant* first = nullptr;
  for (const grant& g : all) {
    if (const std::int64_t own = g.time / length; first == nullptr || own != number) {
      previous = own == number + 1 ? current : 0;
      current = 0;
      number = own;
      first = &g;
    }
    current += g.cost;
    const wide left = length - g.time % length;
    if (previous * left + current * length > wide{p.limit} * length) {
      return excess(p, g, *first, current) + " beside the window before";
    }
  }
  return {};
}

}  // namespace

std::optional<std::string> first_excess(const policy& p, std::vector<grant> all,
                                        bool openers_left) {
  std::stable_sort(all.begin(), all.end(),
                   [](const grant& a, const grant& b) { return a.time < b.time; });
  struct visitor {
    const policy& whole;
    const std::vector<grant>& all;
    bool openers_left;

    using result = std::optional<std::string>;
    result operator()(const fixed_window& p) const {
      if (p.limit == unlimited) return {};
      if (openers_left && p.anchor == anchor::first_request) {
        return of_stretches(whole, all, wide{p.limit} * 2, p.window.count());
      }
      return of_windows(p, all);
    }
    result operator()(const sliding_log& p) const {
      return p.limit == unlimited ? result() : of_stretches(whole, all, p.limit, p.window.count());
    }
    result operator()(const sliding_window& p) const {
      return p.limit == unlimited ? result() : of_two_windows(p, all);
    }
    result operator()(const token_bucket& p) const {
      return of_bucket(whole, all, p.capacity, p.refill, false);
    }
    result operator()(const gcra& p) const { return of_bucket(whole, all, p.burst, p.rate, false); }
    result operator()(const leaky_bucket& p) const {
      return of_bucket(whole, all, 0, p.leak, true);
    }
  };
  return std::visit(visitor{p, all, openers_left}, p);
}

}  // namespace weir::test
