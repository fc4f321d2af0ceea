#include "redis/url.hpp"

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "redis/options_check.hpp"
#include "text/ascii.hpp"
#include "text/number.hpp"
#include "text/url_text.hpp"
#include "weir/error.hpp"

namespace weir::redis {
namespace {

namespace urls = boost::urls;

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

[[noreturn]] void fail(const std::string& text) { text::fail_url(error::invalid_url, text); }

// A '+' stays a '+', also in the query.
std::string decoded(urls::pct_string_view text) { return text.decode(); }

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

void read_user_info(const urls::url_view& url, redis_options& out) {
  if (!url.has_userinfo()) return;
  out.username = decoded(url.encoded_user());
  out.password = decoded(url.encoded_password());
  // An empty password usually comes from a variable that was not set.
  if (out.password.empty()) {
    fail(
        "there is an '@', but no password before it: write user:password@ or :password@ (a user "
        "without a password may be given any)");
  }
}

redis_address read_host(const urls::url_view& url, const std::string& zone,
                        std::uint16_t default_port = 6379) {
  std::string host = decoded(url.encoded_host());
  if (host.empty()) fail("the host is missing: write redis://host or redis://host:port");
  if (url.host_type() == urls::host_type::ipvfuture) {
    fail("the address in brackets is not an IPv6 address");
  }
  if (url.host_type() == urls::host_type::ipv6) host = host.substr(1, host.size() - 2) + zone;
  redis_address out{std::move(host), default_port};
  if (!url.has_port()) return out;
  out.port = text::read_port({url.port().data(), url.port().size()});
  return out;
}

std::uint32_t read_database(std::string_view text, const char* where) {
  const auto number = text::read_number<std::uint32_t>(text);
  if (!number) {
    fail(std::string{where} +
         " is not a database number from 0 to 4294967295 (a '/', '?' or '#' in a password must be "
         "written %2F, %3F or %23)");
  }
  return *number;
}

void read_socket_path(const urls::url_view& url, redis_options& out) {
  if (url.has_port() || !url.encoded_host().empty()) {
    fail(
        "a Unix socket has no host or port: write unix:///path/to/socket, with three slashes, and "
        "'@', '/', '?' and '#' in a password as %40, %2F, %3F and %23");
  }
  out.unix_path = decoded(url.encoded_path());
  if (out.unix_path.empty() || out.unix_path == "/") {
    fail("the path of the socket is missing: write unix:///path/to/socket");
  }
}

bool read_switch(std::string_view text, const char* name) {
  if (text == "true") return true;
  if (text != "false") fail(std::string(name) + " is neither true nor false");
  return false;
}

/// Refuses an empty value of a parameter that must not be empty.
std::string not_empty(std::string&& value, const char* name) {
  if (value.empty()) fail("the parameter " + std::string(name) + " is empty");
  return std::move(value);
}

/// A query parameter, and which URLs may have it.
struct parameter {
  enum class place { any_url, unix_url, sentinel_url, tls_url };

  const char* name;
  place where;
  void (*set)(redis_options&, std::string&& value, const char* name);
};

using options = redis_options;
using enum parameter::place;
constexpr parameter parameters[] = {
    {"timeout", any_url,
     [](options& o, std::string&& v, const char*) { o.timeout = text::read_timeout(v); }},
    {"prefix", any_url,
     [](options& o, std::string&& v, const char*) { o.key_prefix = std::move(v); }},
    {"client_name", any_url,
     [](options& o, std::string&& v, const char*) { o.client_name = std::move(v); }},
    {"db", unix_url,
     [](options& o, std::string&& v, const char*) {
       o.database = read_database(v, "the parameter db");
     }},
    {"sentinel_username", sentinel_url,
     [](options& o, std::string&& v, const char*) { o.sentinel.username = std::move(v); }},
    {"sentinel_password", sentinel_url,
     [](options& o, std::string&& v, const char* name) {
       o.sentinel.password = not_empty(std::move(v), name);
     }},
    {"sentinel_tls", sentinel_url,
     [](options& o, std::string&& v, const char* name) { o.sentinel.tls = read_switch(v, name); }},
    {"tls_ca_file", tls_url,
     [](options& o, std::string&& v, const char* name) {
       o.tls_ca_file = not_empty(std::move(v), name);
     }},
    {"tls_cert_file", tls_url,
     [](options& o, std::string&& v, const char* name) {
       o.tls_cert_file = not_empty(std::move(v), name);
     }},
    {"tls_key_file", tls_url,
     [](options& o, std::string&& v, const char* name) {
       o.tls_key_file = not_empty(std::move(v), name);
     }},
    {"tls_server_name", tls_url,
     [](options& o, std::string&& v, const char* name) {
       o.tls_server_name = not_empty(std::move(v), name);
     }},
    {"tls_verify", tls_url,
     [](options& o, std::string&& v, const char* name) { o.tls_verify = read_switch(v, name); }},
};

bool may_have(const form& f, parameter::place where) {
  return where == any_url || (where == unix_url && f.names == kind::unix_socket) ||
         (where == sentinel_url && f.names == kind::sentinel) || (where == tls_url && f.tls);
}

[[noreturn]] void fail_misplaced(parameter::place where) {
  fail(where == unix_url ? "the URL names its database in the path: write redis://host/2, not ?db=2"
       : where == sentinel_url
           ? "parameters of Sentinels need a URL that begins with redis-sentinel:// or "
             "valkey-sentinel://"
           : "TLS parameters need a URL that begins with rediss:// or valkeys://");
}

void read_query(const urls::url_view& url, const form& f, redis_options& out) {
  bool seen[std::size(parameters)] = {};
  std::size_t place = 0;
  for (const auto& given : url.encoded_params()) {
    ++place;
    const std::string key = decoded(given.key);
    const auto* const found = std::ranges::find(parameters, key, &parameter::name);
    // The error gives the place, not the name, which may be the second half of a password.
    if (found == std::end(parameters)) {
      std::string names;
      for (const parameter& p : parameters) {
        if (may_have(f, p.where)) names += (names.empty() ? "" : ", ") + std::string(p.name);
      }
      fail("query parameter " + std::to_string(place) + " is not one of " + names +
           " (a '?' in a password must be written %3F)");
    }
    if (!may_have(f, found->where)) fail_misplaced(found->where);
    if (std::exchange(seen[found - parameters], true)) {
      fail("the parameter " + key + " is given twice");
    }
    if (!given.has_value) fail("the parameter " + key + " has no value");
    found->set(out, decoded(given.value), found->name);
  }
}

/// With Sentinels: the name of the master, and perhaps the database behind it; else the database.
void read_path(const urls::url_view& url, kind k, redis_options& out) {
  const std::string path = decoded(url.encoded_path());
  std::string_view rest(path);
  if (!rest.empty()) rest.remove_prefix(1);  // the '/'
  if (k == kind::sentinel) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    out.sentinel.master = rest.substr(0, end);
    if (out.sentinel.master.empty()) {
      fail("the master's name is missing: write redis-sentinel://host,host/mymaster");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!rest.empty()) {
    out.database = read_database(rest, k == kind::sentinel
                                           ? "the path behind the master's name"
                                           : "the path (what comes after the host)");
  }
}

/// The hosts with their ports. A ',' in a password is valid.
std::string_view hosts_in(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  std::string_view authority = url.substr(0, url.find_first_of("/?#"));
  if (const auto at = authority.rfind('@'); at != url.npos) authority.remove_prefix(at + 1);
  return authority;
}

/// Takes the zone out of a URL with one host: Boost 1.81 does not parse one.
std::string take_zone(std::string& url) {
  std::string_view address = hosts_in(url);
  if (!address.starts_with('[')) return {};
  address = address.substr(0, address.find(']'));
  const std::size_t size = address.size();
  std::string zone = text::take_zone(address);
  url.erase(static_cast<std::size_t>(address.data() + address.size() - url.data()),
            size - address.size());
  return zone;
}

/// Calls f(URL, zone of its host) with a well-formed URL without a fragment.
template <class F>
void with_parsed(std::string text, F&& f) {
  const std::string zone = take_zone(text);
  const auto parsed = urls::parse_uri({text.data(), text.size()});
  // Boost 1.81 parses "host:12x" as port 12 and path "x".
  const bool glued_path = parsed && !parsed->encoded_path().empty() &&
                          !parsed->encoded_path().starts_with('/');
  if (!parsed || glued_path) {
    fail(
        "it is not a well-formed URL: look for spaces, for a port that is no number, for brackets "
        "around an IPv6 address, and for characters in the password that must be escaped ('@' is "
        "%40, '/' is %2F, '?' is %3F, '#' is %23, '%' is %25)");
  }
  if (parsed->has_fragment()) fail("it contains a '#': in a password, write it as %23");
  f(*parsed, zone);
}

/// Reads the parts of every URL except memory://.
void read_parts(const urls::url_view& url, const std::string& zone, const form& f,
                redis_options& out) {
  read_user_info(url, out);
  if (f.names == kind::unix_socket) {
    read_socket_path(url, out);
  } else {
    redis_address at = read_host(url, zone);
    out.host = std::move(at.host);
    out.port = at.port;
    read_path(url, f.names, out);
  }
  out.tls = f.tls;
  out.sentinel.tls = f.tls && f.names == kind::sentinel;
  read_query(url, f, out);
}

void throw_if_invalid(const redis_options& options) {
  if (const std::string fault = fault_of(options); !fault.empty()) fail(fault);
}

/// Reads the URL once for each host, as if that were the only one. Returns the hosts.
std::vector<redis_address> read_hosts(std::string_view text, const form& f, redis_options& out) {
  const std::uint16_t default_port = f.names == kind::sentinel ? 26379 : 6379;
  const std::string_view hosts = hosts_in(text);
  const auto begin = static_cast<std::size_t>(hosts.data() - text.data());
  const std::string before(text.substr(0, begin)), behind(text.substr(begin + hosts.size()));
  std::vector<redis_address> found;
  for (std::size_t at = 0; at <= hosts.size();) {
    const std::size_t end = std::min(hosts.find(',', at), hosts.size());
    if (found.size() == max_hosts) fail("it names more than 64 hosts");
    with_parsed(before + std::string(hosts.substr(at, end - at)) + behind,
                [&](const urls::url_view& url, const std::string& zone) {
                  if (found.empty()) read_parts(url, zone, f, out);
                  found.push_back(read_host(url, zone, default_port));
                });
    at = end + 1;
  }
  out.host = redis_options{}.host;
  out.port = redis_options{}.port;
  return found;
}

void read_cluster(std::string_view text, const form& f, redis_options& out) {
  out.cluster_seeds = read_hosts(text, f, out);
  if (out.database != 0) fail("a Redis Cluster has one database: leave the path empty");
}

/// With TLS, the same files serve the connections to the Sentinels.
void read_sentinels(std::string_view text, const form& f, redis_options& out) {
  out.sentinel.addresses = read_hosts(text, f, out);
  if (!out.sentinel.tls) return;
  out.sentinel.tls_ca_file = out.tls_ca_file;
  out.sentinel.tls_cert_file = out.tls_cert_file;
  out.sentinel.tls_key_file = out.tls_key_file;
  out.sentinel.tls_verify = out.tls_verify;
}

}  // namespace

store_url parse_store_url(std::string_view text) {
  if (text.size() > max_url_length) {
    fail("it is longer than " + std::to_string(max_url_length) + " bytes");
  }
  const std::string name = read_scheme(text);
  if (name.empty()) {
    fail(
        "it does not begin with redis://, rediss://, redis-cluster://, rediss-cluster://, "
        "redis-sentinel://, rediss-sentinel:// (or these with valkey), unix://, memcached://, "
        "memcached+unix:// or memory://");
  }

  store_url result{};
  if (name == "memory") {
    result.kind = kind::memory;
    if (text.size() != std::string_view{"memory://"}.size()) {
      fail("memory:// takes no further text");
    }
    return result;
  }
  const form* const f = std::ranges::find(forms, name, &form::scheme);
  if (f == std::end(forms)) {
    // The error does not show the scheme: in "password://@host" it is a password.
    text::fail_url(error::unsupported_scheme, "its scheme is unknown");
  }
  result.kind = f->names;
  if (f->names == kind::cluster) {
    read_cluster(text, *f, result.redis);
  } else if (f->names == kind::sentinel) {
    read_sentinels(text, *f, result.redis);
  } else {
    if (f->names == kind::redis && hosts_in(text).find(',') != text.npos) {
      fail(
          "there is a ',' in the host: a store is one server, so name one host (which may have "
          "several addresses), or write redis-cluster:// or redis-sentinel://; in a password, '/', "
          "'?' and '#' must be "
          "written %2F, %3F and %23");
    }
    with_parsed(std::string(text), [&](const urls::url_view& url, const std::string& zone) {
      read_parts(url, zone, *f, result.redis);
    });
  }
  throw_if_invalid(result.redis);
  return result;
}

}  // namespace weir::redis

namespace weir {

redis_options parse_redis_url(std::string_view url) {
  redis::store_url result = redis::parse_store_url(url);
  if (result.kind == redis::store_url::kind::memory) {
    text::fail_url(error::unsupported_scheme,
                   "memory:// names no Redis server: use redis://, rediss://, redis-cluster://, "
                   "rediss-cluster://, redis-sentinel://, rediss-sentinel:// (or these with "
                   "valkey) or unix://, or open_store()");
  }
  return std::move(result.redis);
}

}  // namespace weir
