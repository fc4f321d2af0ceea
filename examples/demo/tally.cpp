#include "tally.hpp"

#include <algorithm>
#include <cmath>
#include <istream>
#include <ostream>

namespace demo {

tally& tally::operator+=(const tally& other) {
  requests += other.requests;
  ok += other.ok;
  refused += other.refused;
  served += other.served;
  waits.insert(waits.end(), other.waits.begin(), other.waits.end());
  return *this;
}

std::chrono::microseconds wait_percentile(const tally& t, double part) {
  if (t.waits.empty()) return {};
  auto sorted = t.waits;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

std::ostream& operator<<(std::ostream& out, const tally& t) {
  out << t.requests << ' ' << t.ok << ' ' << t.refused << ' ' << t.served << ' ' << t.waits.size();
  for (const auto wait : t.waits) out << ' ' << wait.count();
  return out;
}

std::istream& operator>>(std::istream& in, tally& t) {
  std::size_t size = 0;
  in >> t.requests >> t.ok >> t.refused >> t.served >> size;
  t.waits.clear();
  for (std::int64_t wait = 0; t.waits.size() < size && in >> wait;) t.waits.emplace_back(wait);
  return in;
}

}  // namespace demo
