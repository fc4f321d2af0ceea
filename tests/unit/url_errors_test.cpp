#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

#include "redis/url.hpp"
#include "url_fixture.hpp"

namespace url_errors_test {
namespace {

using weir::error;
using weir::parse_redis_url;
using weir::test::failure;
using weir::test::failure_of;

BOOST_AUTO_TEST_SUITE(url_errors_suite)

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
      {"redis://[fe80::1%]", "zone of the IPv6 address"},
      {"redis://[fe80::1%25]", "zone of the IPv6 address"},
      {"redis://[fe80::1%25a%20b]", "zone of the IPv6 address"},
      {"redis://[fe80::1%25a%2]", "zone of the IPv6 address"},
      {"redis://[fe80::1%a%b]", "zone of the IPv6 address"},
      {"redis://[fe80::1%25a,b]", "a store is one server"},
      {"redis://[1.2.3.4%25lo]", "not a well-formed URL"},
      {"redis://[v1.ab%25lo]", "not an IPv6 address"},
      {"redis-cluster://a,[fe80::1%25]", "zone of the IPv6 address"},
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
      BOOST_CHECK_THROW((void)parse_redis_url(url), boost::system::system_error);
    }
  };
  for (const auto& row : table) check(row.url, row.says);
  check("redis://" + long_host, "longer than 255");
  check("rediss://h?tls_server_name=" + long_host, "tls_server_name is longer than 255");
  check("unix:///" + long_path, "path of the socket is longer");
}

BOOST_AUTO_TEST_CASE(schemes_without_a_store) {
  struct {
    std::string_view url;
    std::string_view says;
  } const table[] = {
      {"http://h", "its scheme is unknown"},
      {"valkeyx://h:1", "its scheme is unknown"},
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
  BOOST_CHECK_EXCEPTION((void)parse_redis_url("memory://"), boost::system::system_error,
                        [](const auto& e) { return e.code() == error::unsupported_scheme; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace url_errors_test
