#include "memcached/options_check.hpp"

#include <chrono>
#include <set>
#include <utility>

#include "text/option_range.hpp"

namespace weir::memcached {
namespace {

std::string fault_of_server(const memcached_server& s) {
  const std::string weight = text::fault_of_number("weight", s.weight, 1, 1'000'000);
  if (!s.unix_path.empty())
    return text::first_of({text::fault_of_socket_path(s.unix_path), weight});
  return text::first_of({
      s.host.empty() ? "a host is empty" : "",
      text::fault_of_name(s.host, "a host"),
      s.host.find(',') != std::string::npos ? "there is a ',' in a host" : "",
      text::fault_of_number("port", s.port, 1, 65'535),
      weight,
  });
}

std::string fault_of_servers(const memcached_options& o) {
  if (o.servers.empty() || o.servers.size() > 1000) return "servers: there are not 1 to 1000";
  std::set<std::pair<std::string, std::uint16_t>> seen;
  for (const memcached_server& s : o.servers) {
    if (std::string fault = fault_of_server(s); !fault.empty()) return fault;
    const bool is_socket = !s.unix_path.empty();
    if (!seen.emplace(is_socket ? s.unix_path : s.host, is_socket ? 0 : s.port).second) {
      return "a server is named twice";
    }
  }
  return {};
}

}  // namespace

std::string fault_of(const memcached_options& o) {
  using namespace std::chrono_literals;
  const std::chrono::microseconds skew = o.max_clock_skew;
  return text::first_of({
      fault_of_servers(o),
      text::fault_of_connection(o),
      text::fault_of_duration("clock_check_interval", o.clock_check_interval, 100ms),
      // Zero: the clocks are not compared.
      text::fault_of_duration("max_clock_skew", skew, skew == 0s ? 0s : 1s),
      text::fault_of_number("max_value_size", o.max_value_size, 1000, 64'000'000),
  });
}

}  // namespace weir::memcached
