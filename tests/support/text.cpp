#include "support/text.hpp"

#include <sstream>

namespace weir::test {
namespace {

std::string units(std::int64_t n) { return n == unlimited ? "unlimited" : std::to_string(n); }

std::string text_of(const rate& r) {
  return std::to_string(r.count) + " per " + std::to_string(r.period.count()) + "us";
}

struct policy_text {
  std::ostream& out;

  void operator()(const fixed_window& p) const {
    out << "fixed_window{" << units(p.limit) << " per " << p.window.count() << "us";
    if (p.anchor == anchor::epoch) out << ", epoch + " << p.offset.count() << "us";
    out << (p.count_refused ? ", count_refused}" : "}");
  }
  void operator()(const sliding_log& p) const {
    out << "sliding_log{" << units(p.limit) << " per " << p.window.count() << "us, resolution "
        << p.resolution.count() << "us" << (p.count_refused ? ", count_refused}" : "}");
  }
  void operator()(const sliding_window& p) const {
    out << "sliding_window{" << units(p.limit) << " per " << p.window.count() << "us"
        << (p.count_refused ? ", count_refused}" : "}");
  }
  void operator()(const token_bucket& p) const {
    out << "token_bucket{" << p.capacity << ", " << text_of(p.refill) << "}";
  }
  void operator()(const gcra& p) const {
    out << "gcra{" << text_of(p.rate) << ", burst " << p.burst << "}";
  }
  void operator()(const leaky_bucket& p) const {
    out << "leaky_bucket{" << p.capacity << ", " << text_of(p.leak) << "}";
  }
};

}  // namespace

std::string text_of(const decision& d) {
  std::ostringstream out;
  out << (d.allowed ? "allowed" : "refused") << " limit=" << units(d.limit) << " used=" << d.used
      << " remaining=" << units(d.remaining) << " retry_after=" << d.retry_after.count()
      << (d.cooling_down ? " held" : "") << " reset_after=" << d.reset_after.count()
      << " delay=" << d.delay.count() << " at=" << d.decided_at.time_since_epoch().count()
      << " source=" << static_cast<int>(d.source) << " tier=" << d.tier;
  return out.str();
}

std::string text_of(const policy& p) {
  std::ostringstream out;
  std::visit(policy_text{out}, p);
  return out.str();
}

}  // namespace weir::test
