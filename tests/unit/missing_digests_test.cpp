// An OpenSSL that offers no old digests, as in FIPS mode. A program of its own, because the library
// makes its digests only once.
#include <openssl/provider.h>
#include <stdlib.h>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include "support/test.hpp"
#include "weir/memcached_store.hpp"
#include "weir/redis_store.hpp"

namespace missing_digests_test {

/// OpenSSL then offers no digest at all. Without its configuration, which may load providers.
struct fixture {
  boost::asio::io_context io;
  const int no_configuration = setenv("OPENSSL_CONF", "/dev/null", 1);
  OSSL_PROVIDER* const null = OSSL_PROVIDER_load(nullptr, "null");

  fixture() { BOOST_TEST_REQUIRE(null != nullptr); }
  ~fixture() { OSSL_PROVIDER_unload(null); }
};

bool is_invalid_options(const boost::system::system_error& e) {
  return e.code() == weir::error::invalid_options;
}

BOOST_FIXTURE_TEST_SUITE(missing_digests_suite, fixture)

// It was thrown out of io_context::run(), when the first call named its script.
BOOST_AUTO_TEST_CASE(a_missing_sha1_is_thrown_by_the_function_that_makes_the_store) {
  BOOST_CHECK_EXCEPTION((void)weir::make_redis_store(io.get_executor()),
                        boost::system::system_error, is_invalid_options);
}

BOOST_AUTO_TEST_CASE(a_missing_md5_is_thrown_by_the_function_that_makes_the_store) {
  const weir::memcached_options options{.servers = {{.host = "one"}, {.host = "other"}}};
  BOOST_CHECK_EXCEPTION((void)weir::make_memcached_store(io.get_executor(), options),
                        boost::system::system_error, is_invalid_options);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace missing_digests_test
