#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>
#include <weir/stats.hpp>
#include <weir/store.hpp>

namespace observed {

/// Serves the statistics of a store, and of its limiters and gates, to Prometheus. It counts
/// nothing itself: each scrape reads stats() and converts it. docs/observability.md has the table
/// of the metrics.
///
/// No subject becomes a label: Prometheus keeps a series in memory for each value of a label.
///
/// One object serves one store. Call add() before the object is registered with the exposer; any
/// thread may call Collect(). Destroy the exposer before the store's context.
class weir_metrics : public prometheus::Collectable {
 public:
  /// `system`: the value of db_system_name, "redis" or "memcached".
  weir_metrics(weir::store store, std::string system)
      : store_(std::move(store)), system_(std::move(system)) {}

  /// `limiter`: a limiter or a gate. `resource`: the label of its metrics, UTF-8. Throws
  /// std::invalid_argument if another one has this label, because Prometheus rejects two series of
  /// one name: give a gate another label than the limiter of its resource.
  template <class Limiter>
  void add(std::string resource, Limiter limiter) {
    watch(std::move(resource), [limiter = std::move(limiter)] { return limiter.stats(); });
  }

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  void watch(std::string resource, std::function<weir::limiter_stats()> read);

  weir::store store_;
  std::string system_;
  std::vector<std::pair<std::string, std::function<weir::limiter_stats()>>> limiters_;
};

}  // namespace observed
