#include "redis/url.hpp"

#include "support/test.hpp"
#include "url_fixture.hpp"

namespace url_test {

using namespace weir;
using namespace weir::test;
using weir::redis::parse_store_url;
using weir::redis::store_url;

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

struct row {
  std::string_view url;
  std::function<void(redis_options&)> differs;  // from what is usual in its table
};

void check_rows(enum store_url::kind kind, const redis_options& usual, std::span<const row> rows) {
  for (const auto& [url, differs] : rows) {
    BOOST_TEST_CONTEXT(url) {
      redis_options expected = usual;
      differs(expected);
      const store_url parsed = parse_store_url(url);
      BOOST_TEST((parsed.kind == kind));
      check_equal(parsed.redis, expected);
      check_equal(parse_redis_url(url), expected);
    }
  }
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
  const row rows[] = {
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
      // Zones: RFC 6874, and as other programs write them.
      {"redis://[fe80::1%25eth0]", [](auto& o) { o.host = "fe80::1%eth0"; }},
      {"redis://[fe80::1%eth0]", [](auto& o) { o.host = "fe80::1%eth0"; }},
      {"redis://[fe80::1%252]", [](auto& o) { o.host = "fe80::1%2"; }},
      {"redis://[fe80::1%2]", [](auto& o) { o.host = "fe80::1%2"; }},
      {"redis://[fe80::1%2525]", [](auto& o) { o.host = "fe80::1%25"; }},
      {"redis://[fe80::1%25br-lan.1_%7e]", [](auto& o) { o.host = "fe80::1%br-lan.1_~"; }},
      {"rediss://me:p%40%5B@[fe80::1%25lo]:7000/2?timeout=1s",
       [](auto& o) {
         o.tls = true, o.host = "fe80::1%lo", o.port = 7000, o.database = 2, o.timeout = 1s;
         o.username = "me", o.password = "p@[";
       }},
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
  check_rows(store_url::kind::redis, {.host = "h"}, rows);
}

// Valkey's clients write its own schemes. They mean the same as those of Redis, and say the same.
BOOST_AUTO_TEST_CASE(valkey_urls_are_redis_urls) {
  const auto outcome_of = [](const std::string& url) {
    try {
      return std::pair{std::optional(parse_store_url(url)), std::string{}};
    } catch (const boost::system::system_error& e) {
      return std::pair{std::optional<store_url>{}, std::string(e.what())};
    }
  };
  for (const std::string_view rest :
       {"://h", "s://u:p@h:1/2?tls_verify=false", "-cluster://a:7000,b?prefix=x",
        "s-cluster://me:p@a,[::1]:7001",
        "-sentinel://a:1,b/m/3?sentinel_username=u&sentinel_password=p",
        "s-sentinel://a/m?sentinel_tls=false", "://", "s://h/x", "-cluster://a/1", "-sentinel://a",
        "x://h", "s-x://h", "-://h", "+unix:///a", "://h?tls_verify=false"}) {
    for (const std::string name : {"valkey", "Valkey", "VALKEY"}) {
      BOOST_TEST_CONTEXT(name << rest) {
        const auto [expected, fault] = outcome_of("redis" + std::string(rest));
        const auto [is, same_fault] = outcome_of(name + std::string(rest));
        BOOST_TEST(same_fault == fault);
        BOOST_TEST_REQUIRE(is.has_value() == expected.has_value());
        if (!is) continue;
        BOOST_TEST((is->kind == expected->kind));
        check_equal(is->redis, expected->redis);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(unix_urls) {
  const row rows[] = {
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
  check_rows(store_url::kind::unix_socket, {.unix_path = "/tmp/a.sock"}, rows);
}

BOOST_AUTO_TEST_CASE(cluster_urls) {
  const row rows[] = {
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
      {"redis-cluster://[fe80::1%25lo]:7000,[fe80::2%eth0]",
       [](auto& o) {
         o.cluster_seeds = {{"fe80::1%lo", 7000}, {"fe80::2%eth0"}};
       }},
      {"redis-cluster://[::1]:7000,b",
       [](auto& o) {
         o.cluster_seeds = {{"::1", 7000}, {"b"}};
       }},
  };
  check_rows(store_url::kind::cluster, {.cluster_seeds = {{"a", 7000}, {"b", 7001}}}, rows);
  std::string most = "redis-cluster://h";
  for (int i = 1; i < 64; ++i) most += ",h";
  BOOST_TEST(parse_redis_url(most).cluster_seeds.size() == 64u);
  BOOST_TEST((failure_of(most + ",h").code == error::invalid_url));
}

BOOST_AUTO_TEST_CASE(sentinel_urls) {
  const row rows[] = {
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
  check_rows(store_url::kind::sentinel,
             {.sentinel = {.addresses = {{"a", 1}, {"b", 26379}}, .master = "m"}}, rows);
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace url_test
