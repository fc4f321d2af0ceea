#include "weir_metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string_view>
#include <weir/decision.hpp>
#include <weir/error.hpp>

#include "exposition.hpp"

namespace observed {
namespace {

using enum prometheus::MetricType;

/// The metrics of call_counts: those of a limiter, or of the store.
struct call_metrics {
  metric calls;
  metric errors;
};

constexpr call_metrics of_limiter{
    {"weir_calls_total", Counter, "Calls of a limiter or gate that have ended."},
    {"weir_call_errors_total", Counter, "Calls that ended with an error, by error."},
};
constexpr call_metrics of_store{
    {"weir_store_calls_total", Counter,
     "Calls of all limiters and gates that have ended; a joint call counts once."},
    {"weir_store_call_errors_total", Counter, "Calls that ended with an error, by error."},
};

constexpr metric refusals_by_tier{"weir_refusals_by_tier_total", Counter,
                                  "Refusals by the position of the tier that refused."};
constexpr metric refusals_by_cool_down{"weir_refusals_by_cool_down_total", Counter,
                                       "Refusals because of a cool-down."};
constexpr metric waiting{"weir_waiting", Gauge, "Waiters of acquire()."};
constexpr metric wait_time{"weir_wait_seconds", Histogram,
                           "How long acquire() had callers wait, if at all."};
constexpr metric waits_cancelled{"weir_waits_cancelled_total", Counter,
                                 "Calls of acquire() that were cancelled."};
constexpr metric cool_downs{"weir_cool_downs_total", Counter,
                            "Cool-downs that began, by where they were asked for."};
constexpr metric clamped{"weir_cool_downs_clamped_total", Counter,
                         "Cool-downs that were cut to max_cool_down."};
constexpr metric cooling_down{"weir_cooling_down", Gauge,
                              "Subjects that this process knows to be cooling down."};
constexpr metric leases{"weir_leases", Gauge, "Leases that this process holds."};
constexpr metric leases_lost{"weir_leases_lost_total", Counter, "Leases that were lost."};

constexpr metric connections{"weir_connections", Gauge, "Connections in each state."};
constexpr metric state_since{"weir_connection_state_timestamp_seconds", Gauge,
                             "When a connection last changed its state."};
constexpr metric connects{"weir_connects_total", Counter, "Connections that were made."};
constexpr metric losses{"weir_connection_losses_total", Counter, "Lost connections, by cause."};
constexpr metric last_error{"weir_connection_last_error_timestamp_seconds", Gauge,
                            "When a connection or an attempt to connect last failed."};
constexpr metric circuit_open{"weir_circuit_open", Gauge, "Connections with an open circuit."};
constexpr metric pending_calls{"weir_pending_calls", Gauge,
                               "Calls that wait or are under way, in units of max_pending."};
constexpr metric requests{"weir_requests_total", Counter,
                          "Script calls to Redis, or commands to memcached."};
constexpr metric checks{"weir_checks_total", Counter, "Checks that the requests carried."};
constexpr metric scripts_sent{"weir_scripts_sent_total", Counter, "Scripts sent as text."};
constexpr metric round_trips{"db_client_operation_duration_seconds", Histogram,
                             "Time of a request, from sending to the reply."};

/// error{} stands for errors that are not the library's.
std::string name_of(weir::error e) {
  return e == weir::error{} ? "other" : std::string(weir::name_of(e));
}

double in_seconds(weir::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

labels with(labels all, std::initializer_list<prometheus::ClientMetric::Label> more) {
  all.insert(all.end(), more);
  return all;
}

void add_calls(exposition& out, const call_metrics& m, const labels& of,
               const weir::call_counts& counts) {
  for (std::size_t i = 0; i < counts.allowed.size(); ++i) {
    const std::string from(to_string(static_cast<weir::source>(i)));
    out.add(m.calls, with(of, {{"outcome", "allowed"}, {"source", from}}), counts.allowed[i]);
    out.add(m.calls, with(of, {{"outcome", "refused"}, {"source", from}}), counts.refused[i]);
  }
  out.add(m.calls, with(of, {{"outcome", "other"}}), counts.other);
  out.add(m.calls, with(of, {{"outcome", "cancelled"}}), counts.cancelled);
  out.add(m.calls, with(of, {{"outcome", "failed"}}), counts.all_failed());
  for (const auto& [error, count] : counts.failed) {
    out.add(m.errors, with(of, {{"error", name_of(error)}}), count);
  }
}

void add_limiter(exposition& out, const std::string& resource, const weir::limiter_stats& stats) {
  const labels of{{"resource", resource}};
  add_calls(out, of_limiter, of, stats.calls);
  for (std::size_t i = 0; i < stats.refused_by_tier.size(); ++i) {
    out.add(refusals_by_tier, with(of, {{"tier", std::to_string(i)}}), stats.refused_by_tier[i]);
  }
  out.add(refusals_by_cool_down, of, stats.refused_by_cool_down);
  out.add(waiting, of, stats.waiting);
  out.add(wait_time, of, stats.waited);
  out.add(waits_cancelled, of, stats.gave_up);
  out.add(cool_downs, with(of, {{"origin", "here"}}), stats.cool_downs_begun);
  out.add(cool_downs, with(of, {{"origin", "elsewhere"}}), stats.cool_downs_joined);
  out.add(clamped, of, stats.cool_downs_clamped);
  out.add(cooling_down, of, stats.cooling_down);
  out.add(leases, of, stats.leases_held);
  out.add(leases_lost, of, stats.leases_lost);
}

/// The connections of one address: while a node of a cluster is left and connected to anew, there
/// are two.
struct address_stats {
  std::array<std::size_t, 5> in_state{};
  std::size_t open_circuits = 0;
  std::map<weir::error, std::uint64_t> lost{};
  weir::connection_stats sum{};  ///< `since`, `last_error` and its time are the latest

  void add(const weir::connection_stats& one) {
    ++in_state.at(static_cast<std::size_t>(one.state));
    open_circuits += one.is_circuit_open;
    for (const auto& [cause, count] : one.lost) lost[cause] += count;
    sum.since = std::max(sum.since, one.since);
    if (one.last_error_at > sum.last_error_at) {
      sum.last_error = one.last_error;
      sum.last_error_at = one.last_error_at;
    }
    sum.connects += one.connects;
    sum.pending += one.pending;
    sum.requests += one.requests;
    sum.checks += one.checks;
    sum.scripts_sent += one.scripts_sent;
    sum.round_trips += one.round_trips;
  }
};

/// OpenTelemetry's labels of a database. A Unix socket's path has no port.
labels database_labels(const std::string& system, const std::string& address) {
  const auto colon = address.starts_with('/') ? std::string::npos : address.rfind(':');
  labels made{{"db_system_name", system}, {"server_address", address.substr(0, colon)}};
  if (colon != std::string::npos) made.push_back({"server_port", address.substr(colon + 1)});
  return made;
}

void add_connections(exposition& out, const std::string& system, const std::string& address,
                     const address_stats& stats) {
  const labels of{{"address", address}};
  for (std::size_t i = 0; i < stats.in_state.size(); ++i) {
    const std::string state(to_string(static_cast<weir::connection_state>(i)));
    out.add(connections, with(of, {{"state", state}}), stats.in_state[i]);
  }
  out.add(state_since, of, in_seconds(stats.sum.since));
  out.add(connects, of, stats.sum.connects);
  for (const auto& [cause, count] : stats.lost) {
    out.add(losses, with(of, {{"cause", name_of(cause)}}), count);
  }
  if (stats.sum.last_error_at != weir::time_point{}) {
    out.add(last_error, with(of, {{"error", name_of(stats.sum.last_error)}}),
            in_seconds(stats.sum.last_error_at));
  }
  out.add(circuit_open, of, stats.open_circuits);
  out.add(pending_calls, of, stats.sum.pending);
  out.add(requests, of, stats.sum.requests);
  out.add(checks, of, stats.sum.checks);
  out.add(scripts_sent, of, stats.sum.scripts_sent);
  out.add(round_trips, database_labels(system, address), stats.sum.round_trips);
}

}  // namespace

void weir_metrics::watch(std::string resource, std::function<weir::limiter_stats()> read) {
  for (const auto& [taken, reading] : limiters_) {
    if (taken == resource) throw std::invalid_argument("two limiters have the label " + resource);
  }
  limiters_.emplace_back(std::move(resource), std::move(read));
}

std::vector<prometheus::MetricFamily> weir_metrics::Collect() const {
  exposition out;
  for (const auto& [resource, read] : limiters_) add_limiter(out, resource, read());

  const weir::store_stats stats = store_.stats();
  add_calls(out, of_store, {}, stats.calls);
  std::map<std::string, address_stats> by_address;
  for (const weir::connection_stats& one : stats.connections) {
    by_address[one.address.empty() ? "unknown" : one.address].add(one);
  }
  for (const auto& [address, sums] : by_address) add_connections(out, system_, address, sums);
  return out.take();
}

}  // namespace observed
