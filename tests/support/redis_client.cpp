#include "support/redis_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "support/redis_server.hpp"

namespace weir::test {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string("redis_client: ") + what);
}

int open_socket(const redis_server& server) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (server.socket_path().empty()) {
    auto& address = reinterpret_cast<sockaddr_in&>(storage);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    size = sizeof(address);
  } else {
    auto& address = reinterpret_cast<sockaddr_un&>(storage);
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, server.socket_path().c_str(), sizeof(address.sun_path) - 1);
    size = sizeof(address);
  }
  const int fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  // A server that never answers fails the test instead of hanging it.
  const timeval patience{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    const int why = errno;
    ::close(fd);
    errno = why;
    fail("connect");
  }
  if (server.socket_path().empty()) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fd;
}

reply own(const redis::reply_view& view, std::size_t& index) {
  const redis::reply_value& value = view.values()[index++];
  reply out{value.type, value.integer, std::string(value.text), {}};
  switch (value.type) {
    case redis::reply_type::array:
    case redis::reply_type::map:
    case redis::reply_type::set:
    case redis::reply_type::push:
      for (std::int64_t i = 0; i < value.integer; ++i) out.children.push_back(own(view, index));
      break;
    default:
      break;
  }
  return out;
}

}  // namespace

redis_client::redis_client(const redis_server& server, redis_client_options options)
    : fd_(open_socket(server)) {
  if (options.authenticate && !server.password().empty()) must("AUTH", server.password());
}

redis_client::~redis_client() {
  if (fd_ >= 0) ::close(fd_);
}

void redis_client::flush() {
  for (std::size_t sent = 0; sent < out_.size();) {
    const ssize_t n = ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("send");
    sent += static_cast<std::size_t>(n);
  }
  out_.clear();
}

const redis::reply_view& redis_client::read_view() {
  flush();
  while (true) {
    error_code ec;
    if (const redis::reply_view* view = reader_.next(ec)) return *view;
    if (ec) throw std::runtime_error(std::string("redis_client: ") + reader_.failure());
    const auto room = reader_.prepare(64 * 1024);
    const ssize_t n = ::recv(fd_, room.data(), room.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("recv");
    if (n == 0) throw std::runtime_error("redis_client: the server closed the connection");
    reader_.commit(static_cast<std::size_t>(n));
  }
}

reply redis_client::read() {
  const redis::reply_view& view = read_view();
  std::size_t index = 0;
  return own(view, index);
}

}  // namespace weir::test
