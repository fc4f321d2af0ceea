// What the kernel is asked to do for the connection: send at once, notice a dead link by itself,
// and keep it from programs that this process starts.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "support/tls_certificates.hpp"

namespace socket_options_test {

using weir::test::redis_server;

/// This process's sockets that are connected to the port.
std::vector<int> sockets_to(int port) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) {
      found.push_back(fd);
    }
  }
  return found;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  BOOST_TEST_REQUIRE(::getsockopt(fd, level, name, &value, &size) == 0);
  return value;
}

void check_options_of(const redis_server& server, const weir::redis_options& o) {
  boost::asio::io_context io;
  const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r",
                        weir::fixed_window{.limit = 5, .window = std::chrono::hours{24}});
  weir::test::crowd c;
  l.record("a", c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 1u);

  const auto sockets = sockets_to(server.port());
  BOOST_TEST_REQUIRE(sockets.size() == 1u);
  const int fd = sockets.front();
  BOOST_TEST(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
  BOOST_TEST(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
  BOOST_TEST(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 10);
  BOOST_TEST(option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 3);
  BOOST_TEST(option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  BOOST_TEST(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 10'000);
  BOOST_TEST((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

BOOST_AUTO_TEST_SUITE(socket_options_suite)

BOOST_AUTO_TEST_CASE(of_a_tcp_connection) {
  const redis_server server;
  check_options_of(server, weir::test::patient_options(server));
}

BOOST_AUTO_TEST_CASE(of_a_tls_connection) {
  weir::test::certificate_authority ca;
  const auto files = ca.issue("IP:127.0.0.1");
  const redis_server server(
      {.tls = {
           .certificate_file = files.certificate, .key_file = files.key, .ca_file = ca.file()}});
  auto o = weir::test::patient_options(server);
  o.tls_ca_file = ca.file();
  check_options_of(server, o);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace socket_options_test
