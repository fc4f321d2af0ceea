#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "redis/resp/resp_reader.hpp"
#include "redis/resp/resp_writer.hpp"

namespace weir::test {

class redis_server;

/// A reply that owns what is in it.
struct reply {
  redis::reply_type type{};
  std::int64_t integer = 0;
  std::string text;
  std::vector<reply> children;

  bool is_error() const noexcept {
    return type == redis::reply_type::error || type == redis::reply_type::bulk_error;
  }
  bool is_null() const noexcept { return type == redis::reply_type::null; }
};

struct redis_client_options {
  bool authenticate = true;  ///< with the server's password, if it has one
};

/// A plain blocking connection, RESP2 unless the test says HELLO. Commands are queued and leave
/// with the first read, so a test pipelines by sending many and then reading as many. Everything
/// that goes wrong on the way throws; an error reply does not.
class redis_client {
 public:
  explicit redis_client(const redis_server& server, redis_client_options options = {});
  ~redis_client();
  redis_client(const redis_client&) = delete;
  redis_client& operator=(const redis_client&) = delete;

  template <class... Args>
  void send(const Args&... args) {
    redis::write_command(out_, args...);
  }

  /// For commands whose length is not known at compile time.
  redis::command_writer writer() { return redis::command_writer(out_); }

  void flush();

  /// The next reply. The view lasts until the next read.
  const redis::reply_view& read_view();
  reply read();

  /// Sends one and reads its reply; nothing else may be under way.
  template <class... Args>
  reply call(const Args&... args) {
    send(args...);
    return read();
  }

  /// The same for commands that must not fail: throws with the text of an error reply.
  template <class... Args>
  reply must(const Args&... args) {
    reply r = call(args...);
    if (r.is_error()) throw std::runtime_error("redis_client: " + r.text);
    return r;
  }

 private:
  int fd_ = -1;
  std::string out_;
  redis::reply_reader reader_;
};

}  // namespace weir::test
