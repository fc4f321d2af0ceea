#include "memcached/url.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memcached/options_check.hpp"
#include "text/ascii.hpp"
#include "text/url_text.hpp"
#include "weir/error.hpp"

namespace weir::memcached {
namespace {

using text::fail_url;

constexpr std::string_view tcp_scheme = "memcached://";
constexpr std::string_view unix_scheme = "memcached+unix://";
constexpr std::size_t max_url_length = 65'536;
constexpr const char* malformed =
    "it is not a well-formed URL: look for spaces, for a port that is no number, for brackets "
    "around an IPv6 address, and for a '%' that is no percent-escape, which is written %25 (a "
    "Memcached store takes no user and no password)";

std::string read_socket(const text::split_url& url) {
  if (!url.hosts.front().empty()) {
    fail_url(
        "a Unix socket has no host, user or port: write memcached+unix:///path/to/socket, with "
        "three slashes");
  }
  if (url.rest.encoded_path().find(',') != std::string_view::npos) {
    fail_url(
        "there is a ',' in the path of the socket: write it as %2C (several sockets are given in "
        "memcached_options::servers)");
  }
  std::string path = url.rest.path();
  if (path.empty() || path == "/") {
    fail_url("the path of the socket is missing: write memcached+unix:///path/to/socket");
  }
  return path;
}

void read_servers(const text::split_url& url, memcached_options& out) {
  for (const std::string_view host : url.hosts) {
    auto [name, port] = text::read_host(host, memcached_server().port, malformed);
    if (name.empty()) {
      fail_url(
          "a host is missing: write memcached://host, memcached://a:11211,b:11211 or "
          "memcached+unix:///path/to/socket");
    }
    out.servers.push_back({.host = std::move(name), .port = port});
  }
  if (!url.rest.path().empty() && url.rest.path() != "/") {
    fail_url(
        "there is a path behind the hosts: write a socket as memcached+unix:///path/to/socket");
  }
}

bool has_scheme(std::string_view url, std::string_view scheme) noexcept {
  return url.size() >= scheme.size() &&
         std::ranges::equal(scheme, url.substr(0, scheme.size()), {}, {}, text::lower);
}

constexpr text::parameter<memcached_options> parameters[] = {
    {"timeout", text::any_url,
     [](memcached_options& o, text::given_parameter&& g) { o.timeout = g.timeout(); }},
    {"prefix", text::any_url,
     [](memcached_options& o, text::given_parameter&& g) { o.key_prefix = std::move(g.value); }},
};

}  // namespace

bool is_memcached_url(std::string_view text) noexcept {
  return has_scheme(text, tcp_scheme) || has_scheme(text, unix_scheme);
}

memcached_options parse_url(std::string_view text) {
  if (text.size() > max_url_length) {
    fail_url("it is longer than " + std::to_string(max_url_length) + " bytes");
  }
  if (!is_memcached_url(text)) fail_url("it does not begin with memcached:// or memcached+unix://");
  const text::split_url url = text::split(text, malformed);
  if (url.rest.has_userinfo()) fail_url(malformed);
  memcached_options out;
  out.servers.clear();
  if (has_scheme(text, unix_scheme)) {
    out.servers.push_back({.unix_path = read_socket(url)});
  } else {
    read_servers(url, out);
  }
  text::read_query<memcached_options>(url.rest, parameters, 0, out);
  if (const std::string fault = fault_of(out); !fault.empty()) fail_url(fault);
  return out;
}

}  // namespace weir::memcached

namespace weir {

memcached_options parse_memcached_url(std::string_view url) { return memcached::parse_url(url); }

}  // namespace weir
