#include "redis/url.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "redis/options_check.hpp"
#include "text/ascii.hpp"
#include "text/number.hpp"
#include "text/url_text.hpp"
#include "weir/error.hpp"

namespace weir::redis {
namespace {

using text::fail_url;

using kind = decltype(store_url::kind);

/// What a URL's scheme says.
struct form {
  std::string_view scheme;
  kind names;
  bool tls = false;
};

constexpr form forms[] = {{"redis", kind::redis},
                          {"rediss", kind::redis, true},
                          {"redis-cluster", kind::cluster},
                          {"rediss-cluster", kind::cluster, true},
                          {"redis-sentinel", kind::sentinel},
                          {"rediss-sentinel", kind::sentinel, true},
                          {"unix", kind::unix_socket}};

constexpr std::size_t max_url_length = 4096;
constexpr const char* malformed =
    "it is not a well-formed URL: look for spaces, for a port that is no number, for brackets "
    "around an IPv6 address, and for characters in the password that must be escaped ('@' is "
    "%40, '/' is %2F, '?' is %3F, '#' is %23, '%' is %25)";

/// The scheme in lower case, if "://" comes right after it; else empty. Those of Valkey are read as
/// those of Redis.
std::string read_scheme(std::string_view url) {
  std::string scheme;
  for (char c : url.substr(0, url.find(':'))) {
    c = text::lower(c);
    const bool letter = text::is_lower(c);
    const bool other = text::is_digit(c) || c == '+' || c == '-' || c == '.';
    if (!letter && (!other || scheme.empty())) return {};
    scheme += c;
  }
  if (!url.substr(scheme.size()).starts_with("://")) return {};
  constexpr std::string_view valkey = "valkey";
  if (scheme.starts_with(valkey)) scheme.replace(0, valkey.size(), "redis");
  return scheme;
}

void read_user_info(const boost::urls::url& url, redis_options& out) {
  if (!url.has_userinfo()) return;
  out.username = url.user();
  out.password = url.password();
  // An empty password usually comes from a variable that was not set.
  if (out.password.empty()) {
    fail_url(
        "there is an '@', but no password before it: write user:password@ or :password@ (a user "
        "without a password may be given any)");
  }
}

std::uint32_t read_database(std::string_view text, const char* where) {
  const auto number = text::read_number<std::uint32_t>(text);
  if (!number) {
    fail_url(
        std::string{where} +
        " is not a database number from 0 to 4294967295 (a '/', '?' or '#' in a password must be "
        "written %2F, %3F or %23)");
  }
  return *number;
}

void read_socket_path(const text::split_url& url, redis_options& out) {
  if (!url.hosts.front().empty()) {
    fail_url(
        "a Unix socket has no host or port: write unix:///path/to/socket, with three slashes, and "
        "'@', '/', '?' and '#' in a password as %40, %2F, %3F and %23");
  }
  out.unix_path = url.rest.path();
  if (out.unix_path.empty() || out.unix_path == "/") {
    fail_url("the path of the socket is missing: write unix:///path/to/socket");
  }
}

// The forms of URLs that have parameters of their own.
enum : unsigned { of_unix = 1, of_sentinels = 2, of_tls = 4 };
constexpr text::parameter_place unix_url{
    of_unix, "the URL names its database in the path: write redis://host/2, not ?db=2"};
constexpr text::parameter_place sentinel_url{
    of_sentinels,
    "parameters of Sentinels need a URL that begins with redis-sentinel:// or valkey-sentinel://"};
constexpr text::parameter_place tls_url{
    of_tls, "TLS parameters need a URL that begins with rediss:// or valkeys://"};

unsigned form_of(const form& f) noexcept {
  return (f.names == kind::unix_socket ? of_unix : 0U) |
         (f.names == kind::sentinel ? of_sentinels : 0U) | (f.tls ? of_tls : 0U);
}

using opts = redis_options;
using given = text::given_parameter;
using text::any_url;
constexpr text::parameter<redis_options> parameters[] = {
    {"timeout", any_url, [](opts& o, given&& g) { o.timeout = g.timeout(); }},
    {"prefix", any_url, [](opts& o, given&& g) { o.key_prefix = std::move(g.value); }},
    {"client_name", any_url, [](opts& o, given&& g) { o.client_name = std::move(g.value); }},
    {"db", unix_url,
     [](opts& o, given&& g) { o.database = read_database(g.value, "the parameter db"); }},
    {"sentinel_username", sentinel_url,
     [](opts& o, given&& g) { o.sentinel.username = std::move(g.value); }},
    {"sentinel_password", sentinel_url,
     [](opts& o, given&& g) { o.sentinel.password = std::move(g).not_empty(); }},
    {"sentinel_tls", sentinel_url, [](opts& o, given&& g) { o.sentinel.tls = g.is_true(); }},
    {"tls_ca_file", tls_url, [](opts& o, given&& g) { o.tls_ca_file = std::move(g).not_empty(); }},
    {"tls_cert_file", tls_url,
     [](opts& o, given&& g) { o.tls_cert_file = std::move(g).not_empty(); }},
    {"tls_key_file", tls_url,
     [](opts& o, given&& g) { o.tls_key_file = std::move(g).not_empty(); }},
    {"tls_server_name", tls_url,
     [](opts& o, given&& g) { o.tls_server_name = std::move(g).not_empty(); }},
    {"tls_verify", tls_url, [](opts& o, given&& g) { o.tls_verify = g.is_true(); }},
};

/// With Sentinels: the name of the master, and perhaps the database behind it; else the database.
void read_path(const boost::urls::url& url, kind k, redis_options& out) {
  const std::string path = url.path();
  std::string_view rest(path);
  if (!rest.empty()) rest.remove_prefix(1);  // the '/'
  if (k == kind::sentinel) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    out.sentinel.master = rest.substr(0, end);
    if (out.sentinel.master.empty()) {
      fail_url("the master's name is missing: write redis-sentinel://host,host/mymaster");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!rest.empty()) {
    out.database = read_database(rest, k == kind::sentinel
                                           ? "the path behind the master's name"
                                           : "the path (what comes after the host)");
  }
}

void read_hosts(const text::split_url& url, kind k, redis_options& out) {
  if (k == kind::redis && url.hosts.size() > 1) {
    fail_url(
        "there is a ',' in the host: a store is one server, so name one host (which may have "
        "several addresses), or write redis-cluster:// or redis-sentinel://; in a password, '/', "
        "'?' and '#' must be written %2F, %3F and %23");
  }
  for (const std::string_view host : url.hosts) {
    auto [name, port] = text::read_host(host, k == kind::sentinel ? 26379 : 6379, malformed);
    if (name.empty()) fail_url("the host is missing: write redis://host or redis://host:port");
    if (k == kind::cluster) {
      out.cluster_seeds.push_back({std::move(name), port});
    } else if (k == kind::sentinel) {
      out.sentinel.addresses.push_back({std::move(name), port});
    } else {
      out.host = std::move(name);
      out.port = port;
    }
  }
}

/// Reads every URL but memory://.
redis_options read_options(std::string_view text, const form& f) {
  redis_options out;
  const text::split_url url = text::split(text, malformed);
  read_user_info(url.rest, out);
  if (f.names == kind::unix_socket) {
    read_socket_path(url, out);
  } else {
    read_hosts(url, f.names, out);
    read_path(url.rest, f.names, out);
  }
  out.tls = f.tls;
  out.sentinel.tls = f.tls && f.names == kind::sentinel;
  text::read_query<redis_options>(url.rest, parameters, form_of(f), out);
  if (out.sentinel.tls) {  // the same files serve the connections to the Sentinels
    out.sentinel.tls_ca_file = out.tls_ca_file;
    out.sentinel.tls_cert_file = out.tls_cert_file;
    out.sentinel.tls_key_file = out.tls_key_file;
    out.sentinel.tls_verify = out.tls_verify;
  }
  if (const std::string fault = fault_of(out); !fault.empty()) fail_url(fault);
  return out;
}

}  // namespace

store_url parse_store_url(std::string_view text) {
  if (text.size() > max_url_length) {
    fail_url("it is longer than " + std::to_string(max_url_length) + " bytes");
  }
  const std::string name = read_scheme(text);
  if (name.empty()) {
    fail_url(
        "it does not begin with redis://, rediss://, redis-cluster://, rediss-cluster://, "
        "redis-sentinel://, rediss-sentinel:// (or these with valkey), unix://, memcached://, "
        "memcached+unix:// or memory://");
  }
  if (name == "memory") {
    if (text.size() != std::string_view{"memory://"}.size()) {
      fail_url("memory:// takes no further text");
    }
    return {kind::memory, {}};
  }
  const form* const f = std::ranges::find(forms, name, &form::scheme);
  // The error does not show the scheme: in "password://@host" it is a password.
  if (f == std::end(forms)) fail_url("its scheme is unknown", error::unsupported_scheme);
  return {f->names, read_options(text, *f)};
}

}  // namespace weir::redis

namespace weir {

redis_options parse_redis_url(std::string_view url) {
  redis::store_url result = redis::parse_store_url(url);
  if (result.kind == redis::store_url::kind::memory) {
    text::fail_url(
        "memory:// names no Redis server: use redis://, rediss://, redis-cluster://, "
        "rediss-cluster://, redis-sentinel://, rediss-sentinel:// (or these with valkey) or "
        "unix://, or open_store()",
        error::unsupported_scheme);
  }
  return std::move(result.redis);
}

}  // namespace weir
