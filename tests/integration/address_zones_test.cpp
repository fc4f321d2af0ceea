// IPv6 addresses with a zone (RFC 6874), and URLs of Valkey, on real servers.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "support/redis_server.hpp"
#include "support/run.hpp"

namespace address_zones_test {

using namespace weir;
using namespace weir::test;

/// An address of this machine: the first one in fe80::/10, or ::1. Empty if it has no IPv6.
std::optional<sockaddr_in6> own_address(bool link_local) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_in6 address;
    std::memcpy(&address, a->ifa_addr, sizeof address);
    const bool fits = link_local ? IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)
                                 : IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
    if (fits) return address;
  }
  return std::nullopt;
}

std::string text_of(const sockaddr_in6& address) {
  boost::asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
  return boost::asio::ip::address_v6(bytes).to_string();
}

error_code error_of_record(const std::string& url) {
  boost::asio::io_context io;
  const auto s = open_store(io.get_executor(), url);
  crowd c;
  limiter(s, "r", fixed_window{.limit = 100, .window = 24h}).record("a", c.caller());
  run_until_complete(io, c);
  return c[0].ec;
}

BOOST_AUTO_TEST_SUITE(address_zones_suite)

// Without a zone, no program reaches such an address. Machines without one have the other cases.
BOOST_AUTO_TEST_CASE(a_link_local_address) {
  const auto address = own_address(true);
  if (!address) return;
  char name[IF_NAMESIZE] = {};
  BOOST_TEST_REQUIRE((::if_indextoname(address->sin6_scope_id, name) != nullptr));
  const std::string host = text_of(*address);
  redis_server server({.address = host + '%' + name, .arguments = {"--protected-mode", "no"}});
  const std::string number = std::to_string(address->sin6_scope_id);
  for (const std::string& zone :
       {std::string("%25") + name, std::string("%") + name, "%25" + number, "%" + number}) {
    const std::string url = "redis://[" + host + zone + "]:" + std::to_string(server.port());
    const auto ec = error_of_record(url + "?timeout=50s");
    BOOST_TEST(!ec.failed(), url << ": " << ec.message());
  }
}

// A zone that says nothing new.
BOOST_AUTO_TEST_CASE(the_loopback_address) {
  if (!own_address(false)) return;
  redis_server server({.address = "::1"});
  const std::string port = std::to_string(server.port());
  for (const std::string zone : {"%25lo", "%lo", ""}) {
    const std::string url = "valkey://[::1" + zone + "]:" + port + "/1?timeout=50s";
    const auto ec = error_of_record(url);
    BOOST_TEST(!ec.failed(), url << ": " << ec.message());
  }
}

BOOST_AUTO_TEST_CASE(an_interface_that_is_not_there) {
  for (const std::string url : {"redis://[fe80::1%25nowhere9]:6379?timeout=100ms",
                                "memcached://[fe80::1%25nowhere9]:11211?timeout=100ms"}) {
    WEIR_TEST_ERROR(error_of_record(url), error::host_unreachable);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace address_zones_test
