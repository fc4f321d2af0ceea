// Sends one command again and again through Boost.Redis, each caller a coroutine that awaits its
// reply, and measures the replies. Built where Boost is 1.84 or newer; bench/harness runs it.
//
//   boost_redis_load PORT KEYS CALLERS SERVER_PID WARM_UP SECONDS WORD...
//
// The words are a command; "__rand_int__" in them becomes a random number below KEYS, of 12 digits.
// Over TCP, because the older versions know nothing else. Prints one line of JSON.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/consign.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/src.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/load_clock.h"

namespace {

namespace asio = boost::asio;
namespace redis = boost::redis;

class load {
 public:
  load(char** words, int count)
      : keys_(static_cast<std::uint32_t>(std::stoul(words[2]))),
        callers_(std::stoul(words[3])),
        server_(static_cast<pid_t>(std::stol(words[4]))),
        warm_up_(std::stod(words[5])),
        seconds_(std::stod(words[6])),
        command_(words + 8, words + count),
        name_(words[7]),
        connection_(std::make_shared<redis::connection>(context_.get_executor())) {
    config_.addr.host = "127.0.0.1";
    config_.addr.port = words[1];
    config_.health_check_interval = std::chrono::seconds{10};
  }

  void run() {
    connection_->async_run(config_, redis::logger{}, asio::consign(asio::detached, connection_));
    for (std::size_t i = 0; i < callers_; ++i) spawn(caller(i));
    spawn(observer());
    context_.run();
    if (failure_) std::rethrow_exception(failure_);
    print_load(&begin_, &end_, latencies_.get(), 0, checks_);
  }

 private:
  void spawn(asio::awaitable<void>&& work) {
    asio::co_spawn(context_, std::move(work), [this](std::exception_ptr e) {
      if (e && !failure_) failure_ = e;
      if (e) context_.stop();
    });
  }

  asio::awaitable<void> caller(std::size_t index) {
    const std::size_t stride = callers_ <= 64 ? 1 : 16;
    auto random = static_cast<std::uint32_t>(2463534242U + 2654435761U * index) | 1U;
    std::vector<std::string> arguments = command_;
    for (std::size_t i = index;; ++i) {
      random ^= random << 13;
      random ^= random >> 17;
      random ^= random << 5;
      put_number(arguments, random % keys_);
      const bool timed = i % stride == 0;
      const std::uint64_t before = timed ? now_ns() : 0;
      redis::request request;
      request.push_range(name_, arguments);
      redis::response<long long> response;
      co_await connection_->async_exec(request, response, asio::deferred);
      if (timed && measuring_) latency_add(latencies_.get(), now_ns() - before);
      if (!std::get<0>(response).has_value()) throw std::runtime_error("error reply");
      ++checks_;
    }
  }

  void put_number(std::vector<std::string>& arguments, std::uint32_t number) const {
    constexpr std::string_view placeholder = "__rand_int__";
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::size_t at = command_[i].find(placeholder);
      if (at == std::string::npos) continue;
      std::uint32_t rest = number;
      for (std::size_t d = placeholder.size(); d-- > 0; rest /= 10) {
        arguments[i][at + d] = static_cast<char>('0' + rest % 10);
      }
    }
  }

  asio::awaitable<void> observer() {
    co_await pass(warm_up_);
    begin_ = take_snapshot(checks_, server_);
    measuring_ = true;
    co_await pass(seconds_);
    end_ = take_snapshot(checks_, server_);
    context_.stop();
  }

  /// As in weir_load: at least as many checks as there are callers.
  asio::awaitable<void> pass(double seconds) {
    asio::steady_timer timer(context_);
    const std::uint64_t enough = checks_ + callers_;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    do {
      // Now and then, Boost.Redis 1.84 connects and then sends nothing.
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("no replies");
      timer.expires_after(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
      co_await timer.async_wait(asio::deferred);
    } while (checks_ < enough);
  }

  const std::uint32_t keys_;
  const std::size_t callers_;
  const pid_t server_;
  const double warm_up_;
  const double seconds_;
  const std::vector<std::string> command_;
  const std::string name_;
  asio::io_context context_{1};
  redis::config config_;
  std::shared_ptr<redis::connection> connection_;
  std::uint64_t checks_ = 0;
  bool measuring_ = false;
  load_snapshot begin_{}, end_{};
  std::unique_ptr<latency_histogram> latencies_ = std::make_unique<latency_histogram>();
  std::exception_ptr failure_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 9) return 2;
  try {
    load(words, count).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "boost_redis_load: %s\n", e.what());
    return 1;
  }
}
