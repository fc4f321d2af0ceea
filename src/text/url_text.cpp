#include "text/url_text.hpp"

#include <boost/system/system_error.hpp>

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

}  // namespace weir::text
