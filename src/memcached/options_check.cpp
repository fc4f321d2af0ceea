#include "memcached/options_check.hpp"

#include <chrono>
#include <set>
#include <utility>

#include "text/option_range.hpp"

namespace weir::memcached {
namespace {

std::string fault_of_place(const memcached_server& s) {
  if (!s.unix_path.empty()) return text::fault_of_socket_path(s.unix_path);
  if (s.host.empty()) return "a host is empty";
  if (std::string fault = text::fault_of_name(s.host, "a host"); !fault.empty()) return fault;
  if (s.host.find(',') != std::string::npos) return "there is a ',' in a host";
  const text::number_range numbers[] = {{"port", s.port, 1, 65'535}};
  return text::first_out_of_range(numbers);
}

std::string fault_of_servers(const memcached_options& o) {
  if (o.servers.empty() || o.servers.size() > 1000) return "servers: there are not 1 to 1000";
  std::set<std::pair<std::string, std::uint16_t>> seen;
  for (const memcached_server& s : o.servers) {
    if (std::string fault = fault_of_place(s); !fault.empty()) return fault;
    const text::number_range numbers[] = {{"weight", s.weight, 1, 1'000'000}};
    if (std::string fault = text::first_out_of_range(numbers); !fault.empty()) return fault;
    const bool is_socket = !s.unix_path.empty();
    if (!seen.emplace(is_socket ? s.unix_path : s.host, is_socket ? 0 : s.port).second) {
      return "a server is named twice";
    }
  }
  return {};
}

}  // namespace

std::string fault_of(const memcached_options& o) {
  if (std::string fault = fault_of_servers(o); !fault.empty()) return fault;
  if (std::string fault = text::fault_of_connection(o); !fault.empty()) return fault;
  const std::chrono::microseconds skew = o.max_clock_skew;
  const text::duration_range times[] = {
      {"clock_check_interval", o.clock_check_interval, std::chrono::milliseconds{100}},
      // Zero: the clocks are not compared.
      {"max_clock_skew", skew, skew.count() == 0 ? skew : std::chrono::seconds{1}},
  };
  if (std::string fault = text::first_out_of_range(times); !fault.empty()) return fault;
  const text::number_range numbers[] = {{"max_value_size", o.max_value_size, 1000, 64'000'000}};
  return text::first_out_of_range(numbers);
}

}  // namespace weir::memcached
