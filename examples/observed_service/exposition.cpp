#include "exposition.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace observed {
namespace {

/// In seconds: the bounds that OpenTelemetry advises for db.client.operation.duration, and four
/// below them, because a round trip to a server nearby takes a tenth of a millisecond.
constexpr double bounds[] = {0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.005, 0.01,
                             0.05,   0.1,     0.5,    1,       5,     10};

double in_seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

prometheus::ClientMetric& exposition::series(const metric& m, labels&& of) {
  auto family = std::ranges::find(families_, m.name, &prometheus::MetricFamily::name);
  if (family == families_.end()) {
    families_.push_back({m.name, m.help, m.type, {}});
    family = std::prev(families_.end());
  }
  prometheus::ClientMetric& made = family->metric.emplace_back();
  // Prometheus takes an empty label for none.
  std::erase_if(of, [](const auto& label) { return label.value.empty(); });
  made.label = std::move(of);
  return made;
}

void exposition::add(const metric& m, labels of, double value) {
  prometheus::ClientMetric& made = series(m, std::move(of));
  (m.type == prometheus::MetricType::Counter ? made.counter.value : made.gauge.value) = value;
}

void exposition::add(const metric& m, labels of, const weir::duration_histogram& times) {
  auto& made = series(m, std::move(of)).histogram;
  made.sample_count = times.count();
  made.sample_sum = in_seconds(times.sum());
  for (const double bound : bounds) {
    const auto us = std::chrono::round<std::chrono::microseconds>(
        std::chrono::duration<double>(bound));
    made.bucket.push_back({times.count_within(us), bound});
  }
}

}  // namespace observed
