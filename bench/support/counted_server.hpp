#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "redis/resp/resp_reader.hpp"
#include "redis/resp/resp_writer.hpp"

namespace weir::bench {

/// A connection to a redis-server that runs under callgrind, which counts its instructions.
class counted_server {
 public:
  /// Its socket, its process, and where callgrind writes to.
  counted_server(const std::string& path, std::string pid, std::filesystem::path directory)
      : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)),
        pid_(std::move(pid)),
        directory_(std::move(directory)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(static_cast<char*>(address.sun_path), sizeof(address.sun_path) - 1);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect to " + path);
    }
  }
  counted_server(const counted_server&) = delete;
  counted_server& operator=(const counted_server&) = delete;
  ~counted_server() { ::close(socket_); }

  /// Sends these commands in one go and reads as many replies; throws at an error reply.
  void call(const std::string& commands, std::size_t replies) {
    for (std::size_t sent = 0; sent < commands.size();) {
      const ssize_t n = ::write(socket_, commands.data() + sent, commands.size() - sent);
      if (n <= 0) throw std::runtime_error("the server has gone");
      sent += static_cast<std::size_t>(n);
    }
    while (replies > 0) {
      error_code ec;
      const redis::reply_view* reply = reader_.next(ec);
      if (reply == nullptr) {
        const std::span<char> room = reader_.prepare(64 * 1024);
        const ssize_t n = ::read(socket_, room.data(), room.size());
        if (ec || n <= 0) throw std::runtime_error("the server has gone");
        reader_.commit(static_cast<std::size_t>(n));
        continue;
      }
      if (reply->is_error()) throw std::runtime_error(std::string(reply->root().text));
      last_ = std::string(reply->root().text);
      --replies;
    }
  }
  template <class... Words>
  std::string command(const Words&... words) {
    std::string out;
    redis::write_command(out, words...);
    call(out, 1);
    return last_;
  }

  /// The server's instructions.
  template <class F>
  std::uint64_t count(F&& checks, int rounds) {
    control("zero");
    for (int i = 0; i < rounds; ++i) checks();
    control("dump");
    std::uint64_t total = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      if (file.path().filename().string().rfind("callgrind.", 0) != 0) continue;
      std::ifstream lines(file.path());
      for (std::string line; std::getline(lines, line);) {
        if (line.rfind("totals: ", 0) == 0) total += std::stoull(line.substr(8));
      }
      std::filesystem::remove(file.path());
    }
    if (total == 0) throw std::runtime_error("callgrind has dumped nothing");
    return total;
  }

 private:
  void control(const std::string& what) const {
    const std::string command = "vgdb --pid=" + pid_ + " " + what + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  }

  int socket_;
  std::string pid_;
  std::filesystem::path directory_;
  redis::reply_reader reader_;
  std::string last_;
};

}  // namespace weir::bench
