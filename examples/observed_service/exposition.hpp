#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <string>
#include <utility>
#include <vector>
#include <weir/stats.hpp>

namespace observed {

/// The name of a metric, its type, and the text that Prometheus shows.
struct metric {
  const char* name;
  prometheus::MetricType type;
  const char* help;
};

using labels = std::vector<prometheus::ClientMetric::Label>;

/// What one scrape serves: each metric with all its series.
class exposition {
 public:
  /// For a counter or a gauge.
  void add(const metric& m, labels of, double value);
  /// For a histogram, with fixed upper bounds.
  void add(const metric& m, labels of, const weir::duration_histogram& times);

  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& series(const metric& m, labels&& of);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace observed
