#include "text/url_text.hpp"

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <boost/url/pct_string_view.hpp>

#include "text/ascii.hpp"
#include "text/duration_text.hpp"
#include "text/number.hpp"

namespace weir::text {
namespace {

// Far larger durations would overflow when added to a clock.
constexpr std::chrono::hours longest_timeout{24};

}  // namespace

void fail_url(error code, const std::string& what) {
  throw boost::system::system_error(make_error_code(code), "store URL: " + what);
}

std::uint16_t read_port(std::string_view text) {
  const auto port = read_number<std::uint16_t>(text);
  if (!port || *port == 0) {
    fail_url(error::invalid_url, "the port is not a number from 1 to 65535");
  }
  return *port;
}

std::chrono::microseconds read_timeout(std::string_view text) {
  text_reader reader{text};
  const auto timeout = reader.duration();
  if (!timeout || !reader.end()) {
    fail_url(error::invalid_url,
             "the timeout is not a duration such as 250ms, 2s or 1m: at its character " +
                 std::to_string(reader.position() + 1) + ", expected " + reader.expected());
  }
  if (*timeout > longest_timeout) {
    fail_url(error::invalid_url, "the timeout is longer than a day");
  }
  return *timeout;
}

std::string take_zone(std::string_view& address) {
  const std::size_t percent = address.find('%');
  if (percent == address.npos) return {};
  std::string_view zone = address.substr(percent + 1);
  address = address.substr(0, percent);
  if (zone.starts_with("25")) zone.remove_prefix(2);
  const auto decoded = boost::urls::make_pct_string_view({zone.data(), zone.size()});
  std::string name = decoded ? decoded->decode() : std::string{};
  const auto is_part = [](char c) {
    return is_digit(c) || is_letter(c) ||
           std::string_view{"-._~"}.find(c) != std::string_view::npos;
  };
  if (name.empty() || !std::ranges::all_of(name, is_part)) {
    fail_url(error::invalid_url,
             "the zone of the IPv6 address is not the name or number of an interface: write "
             "[fe80::1%25eth0]");
  }
  return '%' + name;
}

}  // namespace weir::text
