// Sends one request again and again through a bare Asio socket, awaits each reply, and measures the
// round trips: the least that a caller on Asio has to wait if its thread sleeps between replies.
// bench/harness runs it.
//
//   asio_load SOCKET KEYS SERVER_PID WARM_UP SECONDS REQUEST
//
// REQUEST is in RESP; \xHH in it is the byte HH, and "__rand_int__" becomes a random number below
// KEYS, of 12 digits. A reply is what one read brings. Prints one line of JSON.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/escaped_word.h"
#include "support/load_clock.h"

namespace {

namespace asio = boost::asio;
using protocol = asio::local::stream_protocol;

class load {
 public:
  explicit load(char** words)
      : keys_(static_cast<std::uint32_t>(std::stoul(words[2]))),
        server_(static_cast<pid_t>(std::stol(words[3]))),
        warm_up_(std::stod(words[4])),
        seconds_(std::stod(words[5])),
        request_(words[6], unescape(words[6])),
        number_at_(request_.find(placeholder)) {
    socket_.connect(protocol::endpoint(words[1]));
    socket_.non_blocking(true);
  }

  void run() {
    std::exception_ptr failure;
    asio::co_spawn(context_, caller(), [&](std::exception_ptr e) { failure = e; });
    context_.run();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  static constexpr std::string_view placeholder = "__rand_int__";

  asio::awaitable<void> caller() {
    auto latencies = std::make_unique<latency_histogram>();
    std::uint64_t checks = 0;
    const auto pass = [&](double seconds) -> asio::awaitable<void> {
      for (const double end = clock_seconds(CLOCK_MONOTONIC) + seconds;;) {
        const std::uint64_t before = now_ns();
        co_await exchange();
        const std::uint64_t after = now_ns();
        latency_add(latencies.get(), after - before);
        ++checks;
        if (static_cast<double>(after) * 1e-9 >= end) co_return;
      }
    };
    co_await pass(warm_up_);
    *latencies = {};
    const load_snapshot begin = take_snapshot(checks, server_);
    co_await pass(seconds_);
    const load_snapshot end = take_snapshot(checks, server_);
    print_load(&begin, &end, latencies.get(), 0, checks);
  }

  asio::awaitable<void> exchange() {
    put_number();
    if (socket_.write_some(asio::buffer(request_)) != request_.size()) {
      throw std::runtime_error("a write was cut short");
    }
    co_await socket_.async_read_some(asio::buffer(reply_), asio::deferred);
    if (reply_[0] == '-') throw std::runtime_error("error reply");
  }

  void put_number() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    if (number_at_ == std::string::npos) return;
    std::uint32_t rest = random_ % keys_;
    for (std::size_t d = placeholder.size(); d-- > 0; rest /= 10) {
      request_[number_at_ + d] = static_cast<char>('0' + rest % 10);
    }
  }

  const std::uint32_t keys_;
  const pid_t server_;
  const double warm_up_;
  const double seconds_;
  std::string request_;
  const std::size_t number_at_;
  std::uint32_t random_ = 2463534242U;
  char reply_[4096];
  asio::io_context context_{1};
  protocol::socket socket_{context_};
};

}  // namespace

int main(int count, char** words) {
  if (count != 7) return 2;
  try {
    load(words).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "asio_load: %s\n", e.what());
    return 1;
  }
}
