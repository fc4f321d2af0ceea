#include "memcached/options_check.hpp"

#include <chrono>
#include <set>
#include <utility>

#include "text/option_range.hpp"

namespace weir::memcached {
namespace {

std::string fault_of_servers(const memcached_options& o) {
  if (o.servers.empty() || o.servers.size() > 1000) return "servers: there are not 1 to 1000";
  std::set<std::pair<std::string, std::uint16_t>> seen;
  for (const memcached_server& s : o.servers) {
    if (s.host.empty()) return "a host is empty";
    if (std::string fault = text::fault_of_name(s.host, "a host"); !fault.empty()) return fault;
    if (s.host.find(',') != std::string::npos) return "there is a ',' in a host";
    const text::number_range numbers[] = {{"port", s.port, 1, 65'535},
                                          {"weight", s.weight, 1, 1'000'000}};
    if (std::string fault = text::first_out_of_range(numbers); !fault.empty()) return fault;
    if (!seen.emplace(s.host, s.port).second) return "a server is named twice";
  }
  return {};
}

}  // namespace

std::string fault_of(const memcached_options& o) {
  if (std::string fault = fault_of_servers(o); !fault.empty()) return fault;
  using std::chrono::microseconds;
  using text::in_us;
  constexpr microseconds one_ms = std::chrono::milliseconds{1}, ten_ms = 10 * one_ms;
  const microseconds skew = in_us(o.max_clock_skew);
  const text::duration_range times[] = {
      {"timeout", o.timeout, microseconds{1}},
      {"spin_time", o.spin_time, microseconds{0}},
      {"connect_timeout", in_us(o.connect_timeout), one_ms},
      {"silence_timeout", in_us(o.silence_timeout), ten_ms},
      {"ping_interval", in_us(o.ping_interval), ten_ms},
      {"backoff_min", in_us(o.backoff_min), one_ms},
      {"backoff_max", in_us(o.backoff_max), one_ms},
      {"breaker_pause", in_us(o.breaker_pause), one_ms},
      {"clock_check_interval", in_us(o.clock_check_interval), 100 * one_ms},
      // Zero: the clocks are not compared.
      {"max_clock_skew", skew, skew.count() == 0 ? skew : 1000 * one_ms},
  };
  if (std::string fault = text::first_out_of_range(times); !fault.empty()) return fault;
  const text::number_range numbers[] = {
      {"breaker_failures", o.breaker_failures, 0, 1'000'000'000},
      {"max_pending", o.max_pending, 1, 1'000'000'000},
      {"max_value_size", o.max_value_size, 1000, 64'000'000},
  };
  if (std::string fault = text::first_out_of_range(numbers); !fault.empty()) return fault;
  if (o.backoff_max < o.backoff_min) return "backoff_max is less than backoff_min";
  return {};
}

}  // namespace weir::memcached
