#include "text/url_text.hpp"

#include <boost/system/system_error.hpp>
#include <boost/url/authority_view.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/pct_string_view.hpp>

#include "text/ascii.hpp"
#include "text/duration_text.hpp"
#include "text/number.hpp"

namespace weir::text {
namespace {

namespace urls = boost::urls;

// Far larger durations would overflow when added to a clock.
constexpr std::chrono::hours longest_timeout{24};

std::uint16_t read_port(std::string_view text) {
  const auto port = read_number<std::uint16_t>(text);
  if (!port || *port == 0) fail_url("the port is not a number from 1 to 65535");
  return *port;
}

/// Takes the zone off an IPv6 address; empty if there is none.
std::string take_zone(std::string_view& address) {
  const std::size_t percent = address.find('%');
  if (percent == address.npos) return {};
  std::string_view zone = address.substr(percent + 1);
  address = address.substr(0, percent);
  if (zone.starts_with("25")) zone.remove_prefix(2);
  const auto decoded = urls::make_pct_string_view({zone.data(), zone.size()});
  std::string name = decoded ? decoded->decode() : std::string{};
  const auto is_part = [](char c) {
    return is_digit(c) || is_letter(c) ||
           std::string_view{"-._~"}.find(c) != std::string_view::npos;
  };
  if (name.empty() || !std::ranges::all_of(name, is_part)) {
    fail_url(
        "the zone of the IPv6 address is not the name or number of an interface: write "
        "[fe80::1%25eth0]");
  }
  return '%' + name;
}

}  // namespace

void fail_url(const std::string& what, error code) {
  throw boost::system::system_error(make_error_code(code), "store URL: " + what);
}

split_url split(std::string_view url, const char* malformed) {
  const std::size_t authority = url.find("://") + 3;
  std::string_view hosts = url.substr(authority);
  hosts = hosts.substr(0, hosts.find_first_of("/?#"));
  // A ',' in a password is valid.
  if (const auto at = hosts.rfind('@'); at != hosts.npos) hosts.remove_prefix(at + 1);
  std::string rest(url);
  rest.erase(static_cast<std::size_t>(hosts.data() - url.data()), hosts.size());
  const auto parsed = urls::parse_uri({rest.data(), rest.size()});
  if (!parsed) fail_url(malformed);
  if (parsed->has_fragment()) fail_url("it contains a '#': in a password, write it as %23");

  split_url out{{}, urls::url(*parsed)};
  for (std::size_t end = 0; end != hosts.npos;) {
    end = hosts.find(',');
    out.hosts.push_back(hosts.substr(0, end));
    if (end != hosts.npos) hosts.remove_prefix(end + 1);
  }
  return out;
}

host_and_port read_host(std::string_view text, std::uint16_t default_port, const char* malformed) {
  std::string without_zone(text), zone;
  if (text.starts_with('[')) {
    const std::size_t end = std::min(text.find(']'), text.size());
    std::string_view address = text.substr(0, end);
    zone = take_zone(address);
    without_zone = std::string(address) + std::string(text.substr(end));
  }
  const auto parsed = urls::parse_authority({without_zone.data(), without_zone.size()});
  if (!parsed) fail_url(malformed);
  if (parsed->host_type() == urls::host_type::ipvfuture) {
    fail_url("the address in brackets is not an IPv6 address");
  }
  const bool is_v6 = parsed->host_type() == urls::host_type::ipv6;
  host_and_port out{is_v6 ? parsed->host_address() + zone : parsed->host(), default_port};
  if (parsed->has_port()) out.port = read_port({parsed->port().data(), parsed->port().size()});
  return out;
}

std::chrono::microseconds given_parameter::timeout() const {
  text_reader reader{value};
  const auto read = reader.duration();
  if (!read || !reader.end()) {
    fail_url("the timeout is not a duration such as 250ms, 2s or 1m: at its character " +
             std::to_string(reader.position() + 1) + ", expected " + reader.expected());
  }
  if (*read > longest_timeout) fail_url("the timeout is longer than a day");
  return *read;
}

bool given_parameter::is_true() const {
  if (value != "true" && value != "false") fail_url(name + " is neither true nor false");
  return value == "true";
}

std::string given_parameter::not_empty() && {
  if (value.empty()) fail_url("the parameter " + name + " is empty");
  return std::move(value);
}

}  // namespace weir::text
