#include "redis/url.hpp"

#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "url_fixture.hpp"

namespace url_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::parse_redis_url;
using weir::redis_options;
using weir::redis::parse_store_url;
using weir::redis::store_url;
using weir::test::failure;
using weir::test::failure_of;

void check_equal(const redis_options& is, const redis_options& expected) {
  BOOST_TEST(is.host == expected.host);
  BOOST_TEST(is.port == expected.port);
  BOOST_TEST(is.unix_path == expected.unix_path);
  BOOST_TEST(is.username == expected.username);
  BOOST_TEST(is.password == expected.password);
  BOOST_TEST(is.database == expected.database);
  BOOST_TEST(is.client_name == expected.client_name);
  BOOST_TEST(is.key_prefix == expected.key_prefix);
  BOOST_TEST(is.timeout.count() == expected.timeout.count());
  BOOST_TEST(is.tls == expected.tls);
  BOOST_TEST(is.tls_ca_file == expected.tls_ca_file);
  BOOST_TEST(is.tls_cert_file == expected.tls_cert_file);
  BOOST_TEST(is.tls_key_file == expected.tls_key_file);
  BOOST_TEST(is.tls_server_name == expected.tls_server_name);
  BOOST_TEST(is.tls_verify == expected.tls_verify);
  BOOST_TEST((is.cluster_seeds == expected.cluster_seeds));
  BOOST_TEST((is.sentinel.addresses == expected.sentinel.addresses));
  BOOST_TEST(is.sentinel.master == expected.sentinel.master);
  BOOST_TEST(is.sentinel.username == expected.sentinel.username);
  BOOST_TEST(is.sentinel.password == expected.sentinel.password);
  BOOST_TEST(is.sentinel.tls == expected.sentinel.tls);
  BOOST_TEST(is.sentinel.tls_ca_file == expected.sentinel.tls_ca_file);
  BOOST_TEST(is.sentinel.tls_verify == expected.sentinel.tls_verify);
}

BOOST_AUTO_TEST_SUITE(url_suite)

BOOST_AUTO_TEST_CASE(memory_urls) {
  BOOST_TEST((parse_store_url("memory://").kind == store_url::kind::memory));
  BOOST_TEST((parse_store_url("Memory://").kind == store_url::kind::memory));
  for (const std::string_view url :
       {"memory:///", "memory://x", "memory://?prefix=a", "memory://#", "memory:// "}) {
    BOOST_TEST_CONTEXT(url) { BOOST_TEST((failure_of(url).code == error::invalid_url)); }
  }
}

BOOST_AUTO_TEST_CASE(redis_urls) {
  struct {
    std::string_view url;
    std::function<void(redis_options&)> differs;  // from the defaults, with host "h"
  } const table[] = {
      {"redis://h", [](auto&) {}},
      {"REDIS://h", [](auto&) {}},
      {"redis://h/", [](auto&) {}},
      {"redis://h:6379/0", [](auto&) {}},
      {"redis://h:1", [](auto& o) { o.port = 1; }},
      {"redis://h:65535", [](auto& o) { o.port = 65535; }},
      {"redis://h/3", [](auto& o) { o.database = 3; }},
      {"redis://h/%33", [](auto& o) { o.database = 3; }},
      {"redis://h/4294967295", [](auto& o) { o.database = 4294967295; }},
      // Hosts.
      {"redis://127.0.0.1", [](auto& o) { o.host = "127.0.0.1"; }},
      {"redis://cache_1.example.com:7000",
       [](auto& o) { o.host = "cache_1.example.com", o.port = 7000; }},
      {"redis://[::1]", [](auto& o) { o.host = "::1"; }},
      {"redis://:pw@[2001:db8::1]:7000/2",
       [](auto& o) { o.host = "2001:db8::1", o.port = 7000, o.password = "pw", o.database = 2; }},
      {"redis://[::ffff:10.0.0.1]", [](auto& o) { o.host = "::ffff:10.0.0.1"; }},
      {"redis://%68", [](auto&) {}},
      // Users and passwords.
      {"redis://user:pass@h", [](auto& o) { o.username = "user", o.password = "pass"; }},
      {"redis://:pass@h", [](auto& o) { o.password = "pass"; }},
      {"redis://us%3Aer:p%40s%2Fs%3a%23%3f%25%20@h",
       [](auto& o) { o.username = "us:er", o.password = "p@s/s:#?% "; }},
      {"redis://:a:b:c@h", [](auto& o) { o.password = "a:b:c"; }},
      {"redis://:a+b!$&'()*,;=~-._@h", [](auto& o) { o.password = "a+b!$&'()*,;=~-._"; }},
      {"redis://:%00%ff@h", [](auto& o) { o.password = std::string("\0\xff", 2); }},
      // Parameters.
      {"redis://h?timeout=250ms", [](auto& o) { o.timeout = 250ms; }},
      {"redis://h?timeout=2s", [](auto& o) { o.timeout = 2s; }},
      {"redis://h?timeout=1m", [](auto& o) { o.timeout = 1min; }},
      {"redis://h?timeout=500us", [](auto& o) { o.timeout = 500us; }},
      {"redis://h?timeout=1us", [](auto& o) { o.timeout = 1us; }},
      {"redis://h?timeout=24h", [](auto& o) { o.timeout = 24h; }},
      {"redis://h?prefix=app", [](auto& o) { o.key_prefix = "app"; }},
      {"redis://h?prefix=a%20b+c%26d", [](auto& o) { o.key_prefix = "a b+c&d"; }},
      {"redis://h?prefix=", [](auto& o) { o.key_prefix = ""; }},
      {"redis://h?client_name=me:1", [](auto& o) { o.client_name = "me:1"; }},
      {"redis://h?client_name=", [](auto& o) { o.client_name = ""; }},
      {"redis://h?client%5fname=me", [](auto& o) { o.client_name = "me"; }},
      // TLS.
      {"rediss://h", [](auto& o) { o.tls = true; }},
      {"REDISS://u:p%40@[::1]:7000/2?timeout=1s",
       [](auto& o) {
         o.tls = true, o.host = "::1", o.port = 7000, o.database = 2, o.timeout = 1s;
         o.username = "u", o.password = "p@";
       }},
      {"rediss://h?tls_ca_file=/etc/ca%20s.pem&tls_cert_file=c.pem&tls_key_file=k.pem",
       [](auto& o) {
         o.tls = true, o.tls_ca_file = "/etc/ca s.pem";
         o.tls_cert_file = "c.pem", o.tls_key_file = "k.pem";
       }},
      {"rediss://h?tls_server_name=redis.example.com&tls_verify=true",
       [](auto& o) { o.tls = true, o.tls_server_name = "redis.example.com"; }},
      {"rediss://h?tls_verify=false", [](auto& o) { o.tls = true, o.tls_verify = false; }},
      {"redis://h/5?client_name=n&timeout=3ms&prefix=p",
       [](auto& o) { o.database = 5, o.client_name = "n", o.timeout = 3ms, o.key_prefix = "p"; }},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.url) {
      redis_options expected;
      expected.host = "h";
      row.differs(expected);
      const store_url parsed = parse_store_url(row.url);
      BOOST_TEST((parsed.kind == store_url::kind::redis));
      check_equal(parsed.redis, expected);
      check_equal(parse_redis_url(row.url), expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(unix_urls) {
  struct {
    std::string_view url;
    std::function<void(redis_options&)> differs;  // from the defaults, with the path "/tmp/a.sock"
  } const table[] = {
      {"unix:///tmp/a.sock", [](auto&) {}},
      {"Unix:///tmp/a.sock", [](auto&) {}},
      {"unix:///tmp/a.sock?db=2", [](auto& o) { o.database = 2; }},
      {"unix:///tmp/a%20%23b.sock", [](auto& o) { o.unix_path = "/tmp/a #b.sock"; }},
      {"unix://:p%40w@/tmp/a.sock", [](auto& o) { o.password = "p@w"; }},
      {"unix://me:pw@/tmp/a.sock?db=1&timeout=1s&prefix=x&client_name=c",
       [](auto& o) {
         o.username = "me", o.password = "pw", o.database = 1, o.timeout = 1s;
         o.key_prefix = "x", o.client_name = "c";
       }},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.url) {
      redis_options expected;
      expected.unix_path = "/tmp/a.sock";
      row.differs(expected);
      const store_url parsed = parse_store_url(row.url);
      BOOST_TEST((parsed.kind == store_url::kind::unix_socket));
      check_equal(parsed.redis, expected);
      check_equal(parse_redis_url(row.url), expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(cluster_urls) {
  struct {
    std::string_view url;
    std::function<void(redis_options&)> differs;  // from the defaults, with the seeds "a" and "b"
  } const table[] = {
      {"redis-cluster://a:7000,b:7001", [](auto&) {}},
      {"Redis-Cluster://a:7000,b:7001/", [](auto&) {}},
      {"redis-cluster://a:7000,b:7001/0", [](auto&) {}},
      {"rediss-cluster://a:7000,b:7001?tls_ca_file=ca.pem",
       [](auto& o) { o.tls = true, o.tls_ca_file = "ca.pem"; }},
      {"redis-cluster://me:p,w@a:7000,b:7001/?timeout=1s&prefix=x",
       [](auto& o) { o.username = "me", o.password = "p,w", o.timeout = 1s, o.key_prefix = "x"; }},
      {"redis-cluster://a",
       [](auto& o) {
         o.cluster_seeds = {{"a", 6379}};
       }},
      {"redis-cluster://[::1]:7000,b",
       [](auto& o) {
         o.cluster_seeds = {{"::1", 7000}, {"b"}};
       }},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.url) {
      redis_options expected;
      expected.cluster_seeds = {{"a", 7000}, {"b", 7001}};
      row.differs(expected);
      const store_url parsed = parse_store_url(row.url);
      BOOST_TEST((parsed.kind == store_url::kind::cluster));
      check_equal(parsed.redis, expected);
      check_equal(parse_redis_url(row.url), expected);
    }
  }
  std::string most = "redis-cluster://h";
  for (int i = 1; i < 64; ++i) most += ",h";
  BOOST_TEST(parse_redis_url(most).cluster_seeds.size() == 64u);
  BOOST_TEST((failure_of(most + ",h").code == error::invalid_url));
}

BOOST_AUTO_TEST_CASE(sentinel_urls) {
  struct {
    std::string_view url;
    std::function<void(redis_options&)> differs;  // from the defaults, with two Sentinels and "m"
  } const table[] = {
      {"redis-sentinel://a:1,b/m", [](auto&) {}},
      {"redis-sentinel://a:1,b/m/", [](auto&) {}},
      {"redis-sentinel://me:p,w@a:1,b/m/3",
       [](auto& o) { o.username = "me", o.password = "p,w", o.database = 3; }},
      {"redis-sentinel://a:1,b/m?sentinel_username=u&sentinel_password=s%26&prefix=x",
       [](auto& o) { o.sentinel.username = "u", o.sentinel.password = "s&", o.key_prefix = "x"; }},
      {"rediss-sentinel://a:1,b/m?tls_ca_file=ca.pem",
       [](auto& o) {
         o.tls = o.sentinel.tls = true, o.tls_ca_file = o.sentinel.tls_ca_file = "ca.pem";
       }},
      {"rediss-sentinel://a:1,b/m?sentinel_tls=false&tls_verify=false",
       [](auto& o) { o.tls = true, o.tls_verify = false; }},
      {"redis-sentinel://a:1,b/m?sentinel_tls=true", [](auto& o) { o.sentinel.tls = true; }},
      {"redis-sentinel://[::1]/m",
       [](auto& o) {
         o.sentinel.addresses = {{"::1", 26379}};
       }},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.url) {
      redis_options expected;
      expected.sentinel.addresses = {{"a", 1}, {"b", 26379}};
      expected.sentinel.master = "m";
      row.differs(expected);
      const store_url parsed = parse_store_url(row.url);
      BOOST_TEST((parsed.kind == store_url::kind::sentinel));
      check_equal(parsed.redis, expected);
      check_equal(parse_redis_url(row.url), expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(refused_urls_say_why) {
  const std::string long_path(108, 'a');
  const std::string long_host(256, 'a');
  const std::string long_url = "redis://h?prefix=" + std::string(4096, 'p');
  struct {
    std::string_view url;
    std::string_view says;
  } const table[] = {
      {"", "does not begin with"},
      {"redis", "does not begin with"},
      {"redis:", "does not begin with"},
      {"redis:h", "does not begin with"},
      {"redis:/h", "does not begin with"},
      {"//h", "does not begin with"},
      {"://h", "does not begin with"},
      {"127.0.0.1:6379", "does not begin with"},
      {" redis://h", "does not begin with"},
      {"1redis://h", "does not begin with"},
      {"re_dis://h", "does not begin with"},
      {long_url, "longer than 4096"},
      // Host and port.
      {"redis://", "host is missing"},
      {"redis:///", "host is missing"},
      {"redis:///0", "host is missing"},
      {"redis://:6379", "host is missing"},
      {"redis://:pw@", "host is missing"},
      {"redis://a,b", "a store is one server"},
      {"redis://a:6379,b:6379", "a store is one server"},
      {"rediss://user:p,w@a,b:6380/2", "a store is one server"},
      {"redis://a%2Cb", "a store is one server"},
      {"redis://h:", "port is not a number"},
      {"redis://h:0", "port is not a number"},
      {"redis://h:65536", "port is not a number"},
      {"redis://h:99999999999999999999", "port is not a number"},
      {"redis://h:63x", "not a well-formed URL"},
      {"redis://h:6379x5", "not a well-formed URL"},
      {"redis://[::1]x5", "not a well-formed URL"},
      {"unix://:pw@:x/a.sock", "not a well-formed URL"},
      {"redis://h:-1", "not a well-formed URL"},
      {"redis://::1", "not a well-formed URL"},
      {"redis://[::1", "not a well-formed URL"},
      {"redis://[1.2.3.4]", "not a well-formed URL"},
      {"redis://[v1.ab]", "not an IPv6 address"},
      {"redis://a%20b", "space or a control character"},
      {"redis://a%00", "space or a control character"},
      {std::string_view{"redis://a\0", 10}, "not a well-formed URL"},
      {"redis://a b", "not a well-formed URL"},
      {"redis://h\n", "not a well-formed URL"},
      {"redis://%zz", "not a well-formed URL"},
      {"redis://h\xc3\xa4", "not a well-formed URL"},
      // Users.
      {"redis://user@h", "no password before it"},
      {"redis://user:@h", "no password before it"},
      {"redis://:@h", "no password before it"},
      {"redis://@h", "no password before it"},
      // Path.
      {"redis://h/x", "database number"},
      {"redis://h/3/", "database number"},
      {"redis://h//3", "database number"},
      {"redis://h/-1", "database number"},
      {"redis://h/+1", "database number"},
      {"redis://h/1.0", "database number"},
      {"redis://h/4294967296", "database number"},
      {"redis://h/%201", "database number"},
      // Parameters.
      {"redis://h?", "query parameter 1 is not one of timeout, prefix, client_name ("},
      {"redis://h?x=1", "query parameter 1 is not one of"},
      {"redis://h?prefix=a&x=1", "query parameter 2 is not one of"},
      {"redis://h?prefix=a&", "query parameter 2 is not one of"},
      {"redis://h?Prefix=a", "query parameter 1 is not one of"},
      {"redis://h?db=2", "database in the path"},
      {"rediss://h?db=2", "database in the path"},
      {"redis://h?prefix=a&prefix=a", "prefix is given twice"},
      {"redis://h?timeout=1s&prefix=a&timeout=1s", "timeout is given twice"},
      {"redis://h?timeout", "timeout has no value"},
      {"redis://h?timeout=", "expected a whole number above 0"},
      {"redis://h?timeout=250", "at its character 4, expected a unit"},
      {"redis://h?timeout=s", "expected a whole number above 0"},
      {"redis://h?timeout=0s", "expected a whole number above 0"},
      {"redis://h?timeout=-1s", "expected a whole number above 0"},
      {"redis://h?timeout=1.5s", "not a fraction"},
      {"redis://h?timeout=1s1", "expected the end"},
      {"redis://h?timeout=9223372036854775807h", "a duration of at most"},
      {"redis://h?timeout=86400001ms", "longer than a day"},
      {"redis://h?client_name=a%20b", "client_name contains"},
      {"redis://h?client_name=a%0a", "client_name contains"},
      {"redis://h?client_name=%c3%a4", "client_name contains"},
      {"redis://h?client_name=a%7f", "client_name contains"},
      // TLS.
      {"redis://h?tls_ca_file=a", "TLS parameters need a URL that begins with rediss://"},
      {"redis://h?tls_cert_file=a&tls_key_file=b",
       "TLS parameters need a URL that begins with rediss://"},
      {"redis://h?tls_server_name=a", "TLS parameters need a URL that begins with rediss://"},
      {"redis://h?tls_verify=true", "TLS parameters need a URL that begins with rediss://"},
      {"redis://h?tls=true", "query parameter 1 is not one of"},
      {"unix:///a.sock?tls_verify=false", "TLS parameters need a URL that begins with rediss://"},
      {"rediss://h?x=1", "tls_key_file, tls_server_name, tls_verify ("},
      {"rediss://h?tls_ca_file=", "tls_ca_file is empty"},
      {"rediss://h?tls_cert_file=&tls_key_file=k", "tls_cert_file is empty"},
      {"rediss://h?tls_cert_file=c&tls_key_file=", "tls_key_file is empty"},
      {"rediss://h?tls_server_name=", "tls_server_name is empty"},
      {"rediss://h?tls_ca_file", "tls_ca_file has no value"},
      {"rediss://h?tls_ca_file=a&tls_ca_file=a", "tls_ca_file is given twice"},
      {"rediss://h?tls_ca_file=a%00", "a file name contains a control character"},
      {"rediss://h?tls_cert_file=c", "give both or none"},
      {"rediss://h?tls_key_file=k", "give both or none"},
      {"rediss://h?tls_ca_file=a&tls_verify=false", "tls_ca_file would do nothing"},
      {"rediss://h?tls_verify=", "neither true nor false"},
      {"rediss://h?tls_verify=no", "neither true nor false"},
      {"rediss://h?tls_verify=TRUE", "neither true nor false"},
      {"rediss://h?tls_server_name=a%20b", "tls_server_name contains a space"},
      {"rediss://h?tls_server_name=a%00b", "tls_server_name contains a space or a control"},
      {"rediss://", "host is missing"},
      {"rediss:///tmp/a.sock", "host is missing"},
      // Clusters.
      {"redis-cluster://", "host is missing"},
      {"redis-cluster://a,", "host is missing"},
      {"redis-cluster://a,,b", "host is missing"},
      {"redis-cluster://a,b:0", "port is not a number"},
      {"redis-cluster://a,b:7x", "not a well-formed URL"},
      {"redis-cluster://a,b/1", "one database"},
      {"redis-cluster://a,b/x", "database number"},
      {"redis-cluster://user@a,b", "no password before it"},
      {"redis-cluster://a,b?tls_verify=false", "TLS parameters need a URL"},
      {"redis-cluster://a,b#", "contains a '#'"},
      {"redis-cluster://a%2Cb", "a store is one server"},
      {"redis-sentinel://a,b", "master's name is missing"},
      {"redis-sentinel://a,b/", "master's name is missing"},
      {"redis-sentinel://a,b//0", "master's name is missing"},
      {"redis-sentinel://a,b/m/x", "database number"},
      {"redis-sentinel://a,,b/m", "host is missing"},
      {"redis-sentinel://a,b/m%20n", "name of the master contains a space"},
      {"redis-sentinel://a,b/m?sentinel_password=", "parameter sentinel_password is empty"},
      {"redis-sentinel://a,b/m?sentinel_tls=1", "neither true nor false"},
      {"redis://a?sentinel_tls=true", "parameters of Sentinels need a URL"},
      // Fragment.
      {"redis://h#", "contains a '#'"},
      {"redis://h/1#x", "contains a '#'"},
      {"unix:///a#x", "contains a '#'"},
      // Unix sockets.
      {"unix://", "path of the socket is missing"},
      {"unix:///", "path of the socket is missing"},
      {"unix://?db=1", "path of the socket is missing"},
      {"unix://tmp/a.sock", "three slashes"},
      {"unix://h:1/a.sock", "three slashes"},
      {"unix://:1/a.sock", "three slashes"},
      {"unix://me@/a.sock", "no password before it"},
      {"unix:///a%00b", "control character"},
      {"unix:///a.sock?db=x", "the parameter db is not a database number"},
      {"unix:///a.sock?db=", "the parameter db is not a database number"},
      {"unix:///a.sock?db", "db has no value"},
      {"unix:///a.sock?db=1&db=1", "db is given twice"},
      {"unix:///a.sock?y", "query parameter 1 is not one of timeout, prefix, client_name, db ("},
  };
  const auto check = [](std::string_view url, std::string_view says) {
    BOOST_TEST_CONTEXT(url) {
      const failure failed = failure_of(url);
      BOOST_TEST((failed.code == error::invalid_url), failed.code.message());
      BOOST_TEST(failed.text.find(says) != std::string::npos, failed.text);
      BOOST_TEST(failed.text.size() < 500u);
      BOOST_CHECK_THROW(parse_redis_url(url), boost::system::system_error);
    }
  };
  for (const auto& row : table) check(row.url, row.says);
  check("redis://" + long_host, "longer than 255");
  check("rediss://h?tls_server_name=" + long_host, "tls_server_name is longer than 255");
  check("unix:///" + long_path, "path of the socket is longer");
}

BOOST_AUTO_TEST_CASE(bounds_are_exact) {
  const std::string head = "redis://h?prefix=";
  const std::string longest = head + std::string(4096 - head.size(), 'p');
  BOOST_TEST(parse_redis_url(longest).key_prefix.size() == 4096 - head.size());
  BOOST_TEST((failure_of(longest + 'p').code == error::invalid_url));

  BOOST_TEST(parse_redis_url("redis://" + std::string(255, 'a')).host.size() == 255u);
  const std::string path = "/" + std::string(106, 'a');  // 107 bytes: Linux
  BOOST_TEST(parse_redis_url("unix://" + path).unix_path == path);
}

BOOST_AUTO_TEST_CASE(schemes_without_a_store) {
  struct {
    std::string_view url;
    std::string_view says;
  } const table[] = {
      {"http://h", "its scheme is unknown"},
      {"valkey://h:1", "its scheme is unknown"},
      {"redis+unix:///a", "its scheme is unknown"},
      {"unix-cluster://a", "its scheme is unknown"},
      // The scheme comes first, well-formed or not.
      {"http://a b", "its scheme is unknown"},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.url) {
      const failure failed = failure_of(row.url);
      BOOST_TEST((failed.code == error::unsupported_scheme), failed.code.message());
      BOOST_TEST(failed.text.find(row.says) != std::string::npos, failed.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_is_no_redis) {
  BOOST_CHECK_EXCEPTION(parse_redis_url("memory://"), boost::system::system_error,
                        [](const auto& e) { return e.code() == error::unsupported_scheme; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace

}  // namespace url_test
