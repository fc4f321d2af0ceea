#include "memcached/url.hpp"

#include <algorithm>
#include <boost/url/parse_query.hpp>
#include <boost/url/pct_string_view.hpp>
#include <string>
#include <utility>

#include "memcached/options_check.hpp"
#include "text/ascii.hpp"
#include "text/url_text.hpp"
#include "weir/error.hpp"

namespace weir::memcached {
namespace {

constexpr std::string_view tcp_scheme = "memcached://";
constexpr std::string_view unix_scheme = "memcached+unix://";
constexpr std::size_t max_url_length = 65'536;

[[noreturn]] void fail(const std::string& text) { text::fail_url(error::invalid_url, text); }

/// Reads "host", "host:port", "[v6]" or "[v6]:port".
memcached_server read_server(std::string_view text) {
  memcached_server server;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) fail("a '[' has no ']': an IPv6 address is written [::1]");
    std::string_view address = text.substr(1, end - 1);
    const std::string zone = text::take_zone(address);
    rest = text.substr(end + 1);
    const auto is_part = [](char c) {
      return text::is_digit(c) || text::is_letter(c) || c == ':' || c == '.';
    };
    if (address.find(':') == address.npos || !std::ranges::all_of(address, is_part)) {
      fail("the address in brackets is not an IPv6 address");
    }
    server.host = std::string(address) + zone;
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    server.host = text.substr(0, colon);
    rest = text.substr(colon);
    const auto is_part = [](char c) {
      return text::is_digit(c) || text::is_letter(c) || c == '-' || c == '.' || c == '_';
    };
    if (server.host.empty()) {
      fail(
          "a host is missing: write memcached://host, memcached://a:11211,b:11211 or "
          "memcached+unix:///path/to/socket");
    }
    if (!std::ranges::all_of(server.host, is_part)) {
      fail(
          "a host contains something other than letters, digits, '-', '.' and '_' (a Memcached "
          "store takes no user and no password; write a Unix socket as "
          "memcached+unix:///path/to/socket)");
    }
  }
  if (!rest.empty()) {
    if (!rest.starts_with(':')) fail("after an address in brackets comes a ':' and the port");
    server.port = text::read_port(rest.substr(1));
  }
  return server;
}

memcached_server read_socket(std::string_view text) {
  if (text.empty() || text == "/") {
    fail("the path of the socket is missing: write memcached+unix:///path/to/socket");
  }
  if (!text.starts_with('/')) {
    fail(
        "a Unix socket has no host, user or port: write memcached+unix:///path/to/socket, with "
        "three slashes");
  }
  if (text.find(',') != text.npos) {
    fail(
        "there is a ',' in the path of the socket: write it as %2C (several sockets are given in "
        "memcached_options::servers)");
  }
  const auto path = boost::urls::make_pct_string_view({text.data(), text.size()});
  if (!path) fail("a '%' in the path of the socket is no percent-escape: write it as %25");
  memcached_server server;
  server.unix_path = path->decode();
  return server;
}

bool has_scheme(std::string_view url, std::string_view scheme) noexcept {
  return url.size() >= scheme.size() &&
         std::ranges::equal(scheme, url.substr(0, scheme.size()), {}, {}, text::lower);
}

void read_query(std::string_view text, memcached_options& out) {
  const auto query = boost::urls::parse_query({text.data(), text.size()});
  if (!query) fail("the part behind the '?' is not well-formed");
  bool has_timeout = false, has_prefix = false;
  std::size_t place = 0;
  for (const auto& parameter : *query) {
    ++place;
    const std::string key = parameter.key.decode();
    const bool is_timeout = key == "timeout";
    if (!is_timeout && key != "prefix") {
      fail("query parameter " + std::to_string(place) + " is not one of timeout, prefix");
    }
    if (std::exchange(is_timeout ? has_timeout : has_prefix, true)) {
      fail("the parameter " + key + " is given twice");
    }
    if (!parameter.has_value) fail("the parameter " + key + " has no value");
    std::string value = parameter.value.decode();
    if (is_timeout) {
      out.timeout = text::read_timeout(value);
    } else {
      out.key_prefix = std::move(value);
    }
  }
}

}  // namespace

bool is_memcached_url(std::string_view text) noexcept {
  return has_scheme(text, tcp_scheme) || has_scheme(text, unix_scheme);
}

memcached_options parse_url(std::string_view text) {
  if (text.size() > max_url_length) {
    fail("it is longer than " + std::to_string(max_url_length) + " bytes");
  }
  if (!is_memcached_url(text)) fail("it does not begin with memcached:// or memcached+unix://");
  const bool is_socket = has_scheme(text, unix_scheme);
  text.remove_prefix((is_socket ? unix_scheme : tcp_scheme).size());
  if (text.find('#') != text.npos) fail("it contains a '#'");
  const std::size_t question = std::min(text.find('?'), text.size());
  std::string_view servers = text.substr(0, question);

  memcached_options out;
  out.servers.clear();
  if (is_socket) out.servers.push_back(read_socket(servers));
  if (servers.ends_with('/')) servers.remove_suffix(1);
  while (!is_socket) {
    const std::size_t comma = std::min(servers.find(','), servers.size());
    out.servers.push_back(read_server(servers.substr(0, comma)));
    if (comma == servers.size()) break;
    servers.remove_prefix(comma + 1);
  }
  if (question < text.size()) read_query(text.substr(question + 1), out);
  if (const std::string fault = fault_of(out); !fault.empty()) fail(fault);
  return out;
}

}  // namespace weir::memcached

namespace weir {

memcached_options parse_memcached_url(std::string_view url) { return memcached::parse_url(url); }

}  // namespace weir
