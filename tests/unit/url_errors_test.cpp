#include "support/test.hpp"
#include "url_fixture.hpp"

namespace url_errors_test {

using namespace weir;
using namespace weir::test;

BOOST_AUTO_TEST_SUITE(url_errors_suite)

BOOST_AUTO_TEST_CASE(refused_urls_say_why) {
  const std::string long_path(108, 'a');
  const std::string long_host(256, 'a');
  const std::string long_url = "redis://h?prefix=" + std::string(4096, 'p');
  const struct {
    std::string_view says;
    std::vector<std::string_view> urls;
  } rows[] = {
      {"does not begin with",
       {"", "redis", "redis:", "redis:h", "redis:/h", "//h", "://h", "127.0.0.1:6379", " redis://h",
        "1redis://h", "re_dis://h"}},
      {"longer than 4096", {long_url}},
      // Host and port.
      {"host is missing", {"redis://", "redis:///", "redis:///0", "redis://:6379", "redis://:pw@"}},
      {"a store is one server",
       {"redis://a,b", "redis://a:6379,b:6379", "rediss://user:p,w@a,b:6380/2", "redis://a%2Cb",
        "redis://[fe80::1%25a,b]"}},
      {"port is not a number",
       {"redis://h:", "redis://h:0", "redis://h:65536", "redis://h:99999999999999999999"}},
      {"not a well-formed URL",
       {"redis://h:63x", "redis://h:6379x5", "redis://[::1]x5", "redis://h:-1", "redis://::1",
        "redis://[::1", "redis://[1.2.3.4]", "redis://[1.2.3.4%25lo]",
        std::string_view{"redis://a\0", 10}, "redis://a b", "redis://h\n", "redis://%zz",
        "redis://h\xc3\xa4"}},
      {"not an IPv6 address", {"redis://[v1.ab]", "redis://[v1.ab%25lo]"}},
      {"zone of the IPv6 address",
       {"redis://[fe80::1%]", "redis://[fe80::1%25]", "redis://[fe80::1%25a%20b]",
        "redis://[fe80::1%25a%2]", "redis://[fe80::1%a%b]", "redis-cluster://a,[fe80::1%25]"}},
      {"space or a control character", {"redis://a%20b", "redis://a%00"}},
      // Users.
      {"no password before it", {"redis://user@h", "redis://user:@h", "redis://:@h", "redis://@h"}},
      // Path.
      {"database number",
       {"redis://h/x", "redis://h/3/", "redis://h//3", "redis://h/-1", "redis://h/+1",
        "redis://h/1.0", "redis://h/4294967296", "redis://h/%201"}},
      // Parameters.
      {"query parameter 1 is not one of timeout, prefix, client_name (", {"redis://h?"}},
      {"query parameter 1 is not one of", {"redis://h?x=1", "redis://h?Prefix=a"}},
      {"query parameter 2 is not one of", {"redis://h?prefix=a&x=1", "redis://h?prefix=a&"}},
      {"database in the path", {"redis://h?db=2", "rediss://h?db=2"}},
      {"prefix is given twice", {"redis://h?prefix=a&prefix=a"}},
      {"timeout is given twice", {"redis://h?timeout=1s&prefix=a&timeout=1s"}},
      {"timeout has no value", {"redis://h?timeout"}},
      {"expected a whole number above 0",
       {"redis://h?timeout=", "redis://h?timeout=s", "redis://h?timeout=0s",
        "redis://h?timeout=-1s"}},
      {"at its character 4, expected a unit", {"redis://h?timeout=250"}},
      {"not a fraction", {"redis://h?timeout=1.5s"}},
      {"expected the end", {"redis://h?timeout=1s1"}},
      {"a duration of at most", {"redis://h?timeout=9223372036854775807h"}},
      {"longer than a day", {"redis://h?timeout=86400001ms"}},
      {"client_name contains",
       {"redis://h?client_name=a%20b", "redis://h?client_name=a%0a", "redis://h?client_name=%c3%a4",
        "redis://h?client_name=a%7f"}},
      // TLS.
      {"TLS parameters need a URL that begins with rediss://",
       {"redis://h?tls_ca_file=a", "redis://h?tls_cert_file=a&tls_key_file=b",
        "redis://h?tls_server_name=a", "redis://h?tls_verify=true",
        "unix:///a.sock?tls_verify=false"}},
      {"query parameter 1 is not one of", {"redis://h?tls=true"}},
      {"tls_key_file, tls_server_name, tls_verify (", {"rediss://h?x=1"}},
      {"tls_ca_file is empty", {"rediss://h?tls_ca_file="}},
      {"tls_cert_file is empty", {"rediss://h?tls_cert_file=&tls_key_file=k"}},
      {"tls_key_file is empty", {"rediss://h?tls_cert_file=c&tls_key_file="}},
      {"tls_server_name is empty", {"rediss://h?tls_server_name="}},
      {"tls_ca_file has no value", {"rediss://h?tls_ca_file"}},
      {"tls_ca_file is given twice", {"rediss://h?tls_ca_file=a&tls_ca_file=a"}},
      {"a file name contains a control character", {"rediss://h?tls_ca_file=a%00"}},
      {"give both or none", {"rediss://h?tls_cert_file=c", "rediss://h?tls_key_file=k"}},
      {"tls_ca_file would do nothing", {"rediss://h?tls_ca_file=a&tls_verify=false"}},
      {"neither true nor false",
       {"rediss://h?tls_verify=", "rediss://h?tls_verify=no", "rediss://h?tls_verify=TRUE"}},
      {"tls_server_name contains a space", {"rediss://h?tls_server_name=a%20b"}},
      {"tls_server_name contains a space or a control", {"rediss://h?tls_server_name=a%00b"}},
      {"host is missing", {"rediss://", "rediss:///tmp/a.sock"}},
      // Clusters.
      {"host is missing",
       {"redis-cluster://", "redis-cluster://a,", "redis-cluster://a,,b",
        "redis-sentinel://a,,b/m"}},
      {"port is not a number", {"redis-cluster://a,b:0"}},
      {"not a well-formed URL", {"redis-cluster://a,b:7x"}},
      {"one database", {"redis-cluster://a,b/1"}},
      {"database number", {"redis-cluster://a,b/x", "redis-sentinel://a,b/m/x"}},
      {"no password before it", {"redis-cluster://user@a,b"}},
      {"TLS parameters need a URL", {"redis-cluster://a,b?tls_verify=false"}},
      {"contains a '#'", {"redis-cluster://a,b#"}},
      {"a store is one server", {"redis-cluster://a%2Cb"}},
      {"master's name is missing",
       {"redis-sentinel://a,b", "redis-sentinel://a,b/", "redis-sentinel://a,b//0"}},
      {"name of the master contains a space", {"redis-sentinel://a,b/m%20n"}},
      {"parameter sentinel_password is empty", {"redis-sentinel://a,b/m?sentinel_password="}},
      {"neither true nor false", {"redis-sentinel://a,b/m?sentinel_tls=1"}},
      {"parameters of Sentinels need a URL", {"redis://a?sentinel_tls=true"}},
      // Fragment.
      {"contains a '#'", {"redis://h#", "redis://h/1#x", "unix:///a#x"}},
      // Unix sockets.
      {"path of the socket is missing", {"unix://", "unix:///", "unix://?db=1"}},
      {"three slashes",
       {"unix://tmp/a.sock", "unix://h:1/a.sock", "unix://:1/a.sock", "unix://:pw@:x/a.sock"}},
      {"no password before it", {"unix://me@/a.sock"}},
      {"control character", {"unix:///a%00b"}},
      {"the parameter db is not a database number", {"unix:///a.sock?db=x", "unix:///a.sock?db="}},
      {"db has no value", {"unix:///a.sock?db"}},
      {"db is given twice", {"unix:///a.sock?db=1&db=1"}},
      {"query parameter 1 is not one of timeout, prefix, client_name, db (", {"unix:///a.sock?y"}},
  };
  const auto check = [](std::string_view url, std::string_view says) {
    BOOST_TEST_CONTEXT(url) {
      const failure failed = failure_of(url);
      BOOST_TEST((failed.code == error::invalid_url), failed.code.message());
      BOOST_TEST(failed.text.find(says) != std::string::npos, failed.text);
      BOOST_TEST(failed.text.size() < 500u);
      BOOST_CHECK_THROW((void)parse_redis_url(url), boost::system::system_error);
    }
  };
  for (const auto& [says, urls] : rows) {
    for (const std::string_view url : urls) check(url, says);
  }
  check("redis://" + long_host, "longer than 255");
  check("rediss://h?tls_server_name=" + long_host, "tls_server_name is longer than 255");
  check("unix:///" + long_path, "path of the socket is longer");
}

BOOST_AUTO_TEST_CASE(schemes_without_a_store) {
  // The scheme comes first, well-formed or not.
  for (const std::string_view url :
       {"http://h", "valkeyx://h:1", "redis+unix:///a", "unix-cluster://a", "http://a b"}) {
    const failure failed = failure_of(url);
    BOOST_TEST((failed.code == error::unsupported_scheme), failed.text);
    BOOST_TEST(failed.text.find("its scheme is unknown") != std::string::npos, failed.text);
  }
}

BOOST_AUTO_TEST_CASE(memory_is_no_redis) {
  BOOST_CHECK_EXCEPTION((void)parse_redis_url("memory://"), boost::system::system_error,
                        [](const auto& e) { return e.code() == error::unsupported_scheme; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace url_errors_test
