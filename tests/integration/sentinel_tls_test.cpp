// TLS and passwords everywhere: a master and its replica, and Sentinels with an authority and a
// password of their own.
#include <fstream>

#include "support/limiter_fixture.hpp"
#include "support/sentinel_group.hpp"
#include "support/tls_certificates.hpp"

namespace sentinel_tls_test {

using namespace weir;
using namespace weir::test;

const std::string here = "IP:127.0.0.1";

struct fixture : limiter_fixture {
  certificate_authority of_servers, of_sentinels;
  /// Both authorities in one file.
  const std::string both = of_servers.directory() + "/both.pem";
  sentinel_group group = make_group();

  sentinel_group make_group() {
    std::ofstream(both) << std::ifstream(of_servers.file()).rdbuf()
                        << std::ifstream(of_sentinels.file()).rdbuf();
    const auto server = of_servers.issue(here), sentinel = of_sentinels.issue(here);
    return sentinel_group(
        {.replicas = 1,
         .password = "p1",
         .sentinel_password = "p2",
         .tls = {.certificate_file = server.certificate,
                 .key_file = server.key,
                 .ca_file = of_servers.file()},
         .sentinel_tls = {
             .certificate_file = sentinel.certificate, .key_file = sentinel.key, .ca_file = both}});
  }
  redis_options options() const {
    redis_options o = group.options();
    o.tls = o.sentinel.tls = true;
    o.tls_ca_file = of_servers.file();
    o.sentinel.tls_ca_file = of_sentinels.file();
    return o;
  }
  std::string url() const {
    std::string hosts;
    for (const redis_server& s : group.sentinels) {
      hosts += (hosts.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(s.port());
    }
    return "rediss-sentinel://:p1@" + hosts +
           "/mymaster?sentinel_password=p2&timeout=20s&tls_ca_file=" + both;
  }
  static limiter on(store s) {
    return limiter(std::move(s), "r", fixed_window{.limit = 1'000, .window = 24h});
  }
  limiter on(const redis_options& o) { return on(make_redis_store(io.get_executor(), o)); }
  outcome record(const limiter& l) {
    return outcome_of([&](auto caller) { l.record("a", caller); });
  }
  /// Why no Sentinel could be asked. A call gets it at its deadline, if an attempt ended before.
  error_code trouble(redis_options o) {
    o.timeout = 300ms;
    const limiter l = on(o);
    error_code ec = error::timed_out;
    for (int i = 0; ec == error::timed_out && i < 100; ++i) ec = record(l).ec;
    return ec;
  }
  /// Again while a call was written to a server that was dying, which has counted nothing, or ended
  /// at once because the store was known to be away.
  std::int64_t used_after(const limiter& l) {
    for (;;) {
      const outcome o = record(l);
      if (!o.ec) return o.d.used;
      const bool is_away = o.ec == error::connection_refused || o.ec == error::closed_by_peer ||
                           o.ec == error::circuit_open || o.ec == error::timed_out;
      BOOST_REQUIRE_MESSAGE(o.ec == error::outcome_unknown || is_away, o.ec.message());
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(sentinel_tls_suite, fixture)

BOOST_AUTO_TEST_CASE(a_failover_is_followed_and_each_certificate_is_checked) {
  const limiter by_url = on(open_store(io.get_executor(), url()));
  const limiter by_options = on(options());
  BOOST_TEST(used_after(by_url) == 1);
  BOOST_TEST(used_after(by_options) == 2);

  // Neither authority vouches for the other's servers.
  redis_options o = options();
  o.tls_ca_file = of_sentinels.file();
  WEIR_TEST_ERROR(record(on(o)).ec, error::tls_failed);
  o = options();
  o.sentinel.tls_ca_file = of_servers.file();
  WEIR_TEST_ERROR(trouble(o), error::tls_failed);
  o = options();
  o.sentinel.password = "p1";
  WEIR_TEST_ERROR(trouble(o), error::authentication_failed);

  redis_server& old = group.master();
  redis_client last(old);
  last.must("SET", "x", "y");
  BOOST_TEST(last.must("WAIT", "1", "20000").integer == 1);
  old.kill();
  BOOST_TEST(used_after(by_url) == 3);
  BOOST_TEST(used_after(by_options) == 4);
  group.wait_for_failover_from(old);  // also at the Sentinels that were not asked
  redis_server& now = group.master();
  BOOST_TEST(&now != &old);

  // The new master shows a certificate for another name.
  const auto other = of_servers.issue("DNS:elsewhere");
  redis_client(now).must("CONFIG", "SET", "tls-cert-file", other.certificate);
  WEIR_TEST_ERROR(record(on(options())).ec, error::tls_failed);
  o = options();
  o.tls_server_name = "elsewhere";
  BOOST_TEST(used_after(on(o)) == 5);
  BOOST_TEST(used_after(by_url) == 6);  // the connection stands
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sentinel_tls_test
