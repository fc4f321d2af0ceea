#include "memcached/options_check.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "text/ascii.hpp"
#include "text/number_range.hpp"

namespace weir::memcached {
namespace {

constexpr std::size_t max_host_length = 255;
constexpr std::int64_t day_in_us = 86'400'000'000;

/// As a number that text::first_out_of_range() takes: 0 if it is negative.
std::uint64_t in_us(std::chrono::milliseconds d) {
  const std::chrono::milliseconds most = std::chrono::hours{48};
  return static_cast<std::uint64_t>(
      std::chrono::microseconds(std::clamp(d, std::chrono::milliseconds{0}, most)).count());
}

std::string fault_of_servers(const memcached_options& o) {
  if (o.servers.empty() || o.servers.size() > 1000) return "servers: there are not 1 to 1000";
  std::set<std::pair<std::string, std::uint16_t>> seen;
  for (const memcached_server& s : o.servers) {
    if (s.host.empty()) return "a host is empty";
    if (s.host.size() > max_host_length) return "a host is longer than 255 characters";
    if (std::ranges::any_of(s.host, [](char c) { return text::is_control(c) || c == ' '; })) {
      return "a host contains a space or a control character";
    }
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
  const auto timeout = static_cast<std::uint64_t>(std::max<std::int64_t>(0, o.timeout.count()));
  // A negative one becomes a number beyond the range.
  const auto spin_time = static_cast<std::uint64_t>(o.spin_time.count());
  const std::uint64_t skew = in_us(o.max_clock_skew);
  const text::number_range numbers[] = {
      {"timeout (us)", timeout, 1, day_in_us},
      {"spin_time (us)", spin_time, 0, day_in_us},
      {"connect_timeout (us)", in_us(o.connect_timeout), 1000, day_in_us},
      {"silence_timeout (us)", in_us(o.silence_timeout), 10'000, day_in_us},
      {"ping_interval (us)", in_us(o.ping_interval), 10'000, day_in_us},
      {"backoff_min (us)", in_us(o.backoff_min), 1000, day_in_us},
      {"backoff_max (us)", in_us(o.backoff_max), 1000, day_in_us},
      {"breaker_pause (us)", in_us(o.breaker_pause), 1000, day_in_us},
      {"clock_check_interval (us)", in_us(o.clock_check_interval), 100'000, day_in_us},
      {"max_clock_skew (us)", skew == 0 && o.max_clock_skew.count() == 0 ? 1'000'000 : skew,
       1'000'000, day_in_us},
      {"breaker_failures", o.breaker_failures, 0, 1'000'000'000},
      {"max_pending", o.max_pending, 1, 1'000'000'000},
      {"max_value_size", o.max_value_size, 1000, 64'000'000},
  };
  if (std::string fault = text::first_out_of_range(numbers); !fault.empty()) return fault;
  if (o.backoff_max < o.backoff_min) return "backoff_max is less than backoff_min";
  return {};
}

}  // namespace weir::memcached
