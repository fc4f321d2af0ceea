// What a store URL must never do: show its password, or break on any bytes.
#include <random>

#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"
#include "url_fixture.hpp"

namespace url_secrets_test {

using namespace weir;
using namespace weir::test;
using weir::redis::parse_store_url;
using weir::redis::store_url;

BOOST_AUTO_TEST_SUITE(url_secrets_suite)

// "Zq7" and "Wk9" stand for the password and the user; no text of ours contains them.
BOOST_AUTO_TEST_CASE(secrets_never_reach_the_text) {
  const std::string_view table[] = {
      // A character in the password that should have been escaped.
      "redis://Wk9:Zq7@Zq7@h:6379/0",
      "redis://Wk9:Zq7#Zq7@h:6379/0",
      "redis://Wk9:77#Zq7@h:6379/0",
      "redis://Wk9:Zq7/Zq7@h:6379/0",
      "redis://Wk9:77/Zq7@h:6379/0",
      "redis://:77/Zq7@h:6379/0",
      "redis://Wk9:77?Zq7@h:6379/0",
      "redis://Wk9:77?timeout=Zq7@h:6379/0",
      "redis://Wk9:77?timeout=1s&Zq7=Zq7@h:6379/0",
      "redis://Wk9:77?client_name=Zq7 @h",
      "redis://Wk9:77?client_name=Zq7%20@h",
      "redis://Wk9:77?prefix=1&prefix=Zq7@h",
      "redis://Wk9:77?db=Zq7@h",
      "redis://Wk9:Zq7 Zq7@h:6379/0",
      "redis://Wk9:Zq7%Zq7@h:6379/0",
      "redis://Wk9:Zq7\\Zq7@h:6379/0",
      "redis://Wk9:Zq7\"Zq7@h:6379/0",
      "redis://Wk9:Zq7[Zq7]@h:6379/0",
      "redis://Wk9:Zq7\nZq7@h:6379/0",
      "redis://Wk9:Zq7://Zq7@h:6379/0",
      "redis://Wk9:\xc3\xa4Zq7@h:6379/0",
      "unix://Wk9:77/Zq7@/tmp/a.sock",
      "unix://Wk9:77/tmp?db=Zq7@/tmp/a.sock",
      "unix://Wk9:77?db=Zq7@/tmp/a.sock",
      "unix://:Zq7#@/tmp/a.sock",
      // A good password, something else wrong.
      "redis://Wk9:Zq7@",
      "redis://Wk9:Zq7@:6379",
      "redis://Wk9:Zq7@h:0",
      "redis://Wk9:Zq7@h:port",
      "redis://Wk9:Zq7@h/db",
      "redis://Wk9:Zq7@h/0?x=1",
      "redis://Wk9:Zq7@h/0?timeout=1",
      "redis://Wk9:Zq7@h/0#x",
      "redis://Wk9:Zq7@[::1",
      "redis://Wk9:Zq7@[v1.x]",
      "unix://Wk9:Zq7@tmp/a.sock",
      "unix://Wk9:Zq7@",
      // The parts in an unexpected order, or some of them missing.
      "redis://Wk9@h",
      "redis://Zq7@h",
      "redis://h/Zq7",
      "redis://h?password=Zq7",
      "redis://h?Zq7",
      "redis://h#Zq7",
      "redis:Wk9:Zq7@h",
      "redis:/Wk9:Zq7@h",
      "redis//Wk9:Zq7@h",
      "Wk9:Zq7@h",
      "Zq7@h",
      ":Zq7@h",
      "Zq7:h://",
      "Zq7://@h",
      "Zq7.Wk9://@h",
      "Zq7@redis://h",
      "memory://Wk9:Zq7@",
      // TLS.
      "rediss://Wk9:Zq7@h?x=1",
      "rediss://Wk9:Zq7@h?tls_verify=Zq7",
      "rediss://h?tls_cert_file=Zq7",
      "rediss://h?tls_ca_file=Zq7&tls_verify=false",
      "rediss://h?tls_server_name=Zq7%20",
      "redis://h?tls_ca_file=Zq7",
      // Other schemes.
      "mongodb://Wk9:Zq7@h",
      "mongodb://Wk9:Zq7 @h",
  };
  for (const std::string_view url : table) {
    const failure failed = failure_of(url);
    BOOST_TEST_CONTEXT(url << " -> " << failed.text) {
      BOOST_TEST(failed.code.failed());
      BOOST_TEST(failed.text.find("Zq7") == std::string::npos);
      BOOST_TEST(failed.text.find("Wk9") == std::string::npos);
      BOOST_TEST(failed.text.find("zq7") == std::string::npos);  // a lower-cased scheme
      BOOST_TEST(failed.text.find("wk9") == std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_passwords_are_read_when_escaped_and_never_shown_when_not) {
  std::mt19937_64 random(run_seed());
  constexpr std::string_view awkward =
      "@:/?#[]% &=+\\\"'{}|^`<>\n\x7f\xff"
      "0123456789ab";
  constexpr char hex[] = "0123456789ABCDEF";
  constexpr int passwords = is_sanitized ? 500 : 5'000;
  int failures = 0;
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    for (int i = 0; i < passwords; ++i) {
      std::string password;
      for (auto n = 1 + random() % 12; n > 0; --n) password += awkward[random() % awkward.size()];
      password.insert(random() % (password.size() + 1), "Zq7");

      std::string escaped;
      for (const char c : password) {
        escaped += {'%', hex[static_cast<unsigned char>(c) >> 4], hex[c & 15]};
      }
      const redis_options read = parse_redis_url("redis://me:" + escaped + "@h:7/4");
      BOOST_REQUIRE(read.password == password);
      BOOST_REQUIRE(read.username == "me");
      BOOST_REQUIRE(read.host == "h");
      BOOST_REQUIRE(read.port == 7);
      BOOST_REQUIRE(read.database == 4u);

      for (const char* const head : {"redis://me:", "rediss://:", "unix://me:", "", "redis:"}) {
        const failure failed = failure_of(head + password + "@h:7/4");
        failures += failed.code.failed();
        BOOST_TEST_CONTEXT(head << password) {
          BOOST_REQUIRE(failed.text.find("Zq7") == std::string::npos);
          BOOST_REQUIRE(failed.text.find("zq7") == std::string::npos);
        }
      }
    }
    BOOST_TEST(failures > 2 * passwords, "the passwords are too tame: " << failures);
  }
}

BOOST_AUTO_TEST_CASE(random_bytes_are_read_or_refused) {
  std::mt19937_64 random(run_seed());
  constexpr std::string_view pieces[] = {
      "h",        "127.0.0.1", "[::1]", ":6379", ":",       "/",    "@",           "?",   "#",
      "timeout=", "250ms",     "&",     "db=1",  "prefix=", "x",    "client_name", "=",   "%41",
      "%",        "%00",       "//",    "[",     "]",       ":pw@", "u:p@",        "\xff"};
  constexpr std::string_view heads[] = {"redis://", "rediss://h", "unix:///", "redis://h"};
  constexpr int urls = is_sanitized ? 8'000 : 40'000;
  int valid = 0;
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    for (int i = 0; i < urls; ++i) {
      std::string url;
      if (i % 4 != 0) url = heads[random() % std::size(heads)];
      if (i % 2 == 0) {
        for (auto n = random() % 8; n > 0; --n) url += pieces[random() % std::size(pieces)];
      } else {
        for (auto n = random() % 24; n > 0; --n) url += static_cast<char>(random());
      }
      url.shrink_to_fit();  // so that a sanitizer sees a read beyond the end
      try {
        const store_url parsed = parse_store_url(std::string_view{url.data(), url.size()});
        ++valid;
        const redis_options& o = parsed.redis;
        BOOST_REQUIRE(!o.host.empty());
        BOOST_REQUIRE(o.host.find_first_of("[] ") == std::string::npos);
        BOOST_REQUIRE(o.port != 0);
        BOOST_REQUIRE(o.timeout > 0us);
        BOOST_REQUIRE((o.unix_path.empty() || o.unix_path.front() == '/'));
        BOOST_REQUIRE(o.unix_path.empty() == (parsed.kind != store_url::kind::unix_socket));
        BOOST_REQUIRE(o.tls == url.starts_with("rediss"));
        BOOST_REQUIRE((o.username.empty() || !o.password.empty()));
      } catch (const boost::system::system_error& e) {
        BOOST_REQUIRE((e.code() == error::invalid_url || e.code() == error::unsupported_scheme));
        for (const char* c = e.what(); *c != '\0'; ++c) BOOST_REQUIRE((*c >= ' ' && *c <= '~'));
      }
    }
    BOOST_TEST(valid > 500, "the random texts hardly reach the valid ones: " << valid);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace url_secrets_test
