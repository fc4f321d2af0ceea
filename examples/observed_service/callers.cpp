#include "callers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <exception>
#include <utility>

namespace observed {
namespace {

using namespace std::chrono_literals;

constexpr auto as_result = asio::as_tuple(asio::deferred);

asio::awaitable<void> sleep_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::deferred);
}

std::string account(int number) { return "account-" + std::to_string(number); }

}  // namespace

std::string to_json(const tally& seen) {
  std::string text;
  for (const auto& [resource, counts] : seen) {
    text += (text.empty() ? "{\"" : ", \"") + resource + "\": ";
    char before = '{';
    for (const auto& [what, count] : counts) {
      text += std::exchange(before, ',') + ("\"" + what + "\": ") + std::to_string(count);
    }
    text += '}';
  }
  return text + '}';
}

callers::callers(weir::limiter clients, weir::limiter partner, weir::concurrency_limiter gate)
    : clients_(std::move(clients)),
      partner_(std::move(partner)),
      gate_(std::move(gate)),
      all_ended_(clients_.get_executor(), asio::steady_timer::time_point::max()) {
  for (int i = 0; i < 8; ++i) {
    start(serve_client(i));
    start(call_partner(i));
  }
}

void callers::start(asio::awaitable<void> caller) {
  ++running_;
  const auto ended = [this](std::exception_ptr failure) {
    if (--running_ == 0) all_ended_.cancel();
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const boost::system::system_error& e) {
      if (e.code() != asio::error::operation_aborted) throw;  // stop() cancelled it
    }
  };
  asio::co_spawn(clients_.get_executor(), std::move(caller),
                 asio::bind_cancellation_slot(signals_.emplace_back().slot(), ended));
}

asio::awaitable<void> callers::stop() {
  for (auto& signal : signals_) signal.emit(asio::cancellation_type::terminal);
  while (running_ > 0) co_await all_ended_.async_wait(as_result);
}

void callers::note(const std::string& resource, const weir::error_code& ec,
                   const weir::decision& d) {
  auto& counts = seen_[resource];
  if (ec == asio::error::operation_aborted) {
    ++counts["cancelled"];
  } else if (ec) {
    ++counts["failed: " + std::string(weir::name_of(ec))];
  } else {
    ++counts[d.allowed ? "allowed" : "refused"];
    if (d.cooling_down) ++counts["refused by cool-down"];
    if (!d.allowed && !d.cooling_down && d.tier >= 0) {
      ++counts["refused by tier " + std::to_string(d.tier)];
    }
  }
}

/// A client that sends more than it may. Every fiftieth request is larger than any limit.
asio::awaitable<void> callers::serve_client(int number) {
  const std::string subject = account(number);
  for (int i = 1;; ++i) {
    const std::int64_t cost = i % 50 == 0 ? 1'000'000 : 1;
    const auto [ec, d] = co_await clients_.record(subject, {.cost = cost}, as_result);
    note("clients", ec, d);
    co_await sleep_for(5ms);
  }
}

/// Calls of the partner's API. The partner answers a few of them with 429.
asio::awaitable<void> callers::call_partner(int number) {
  const std::string subject = account(number % 2);
  for (int i = 1;; ++i) {
    const auto [ec, d] = co_await partner_.acquire(subject, {.max_wait = 100ms}, as_result);
    note("partner", ec, d);
    if (!ec && d.allowed && d.delay.count() > 0) ++seen_["partner"]["waited"];
    if (ec == asio::error::operation_aborted) ++seen_["partner"]["waits cancelled"];
    if (ec || !d.allowed) {
      co_await sleep_for(20ms);
      continue;
    }
    auto [failure, lease] = co_await gate_.enter(subject, {}, as_result);
    note("partner-gate", failure, lease.decision());
    if (!lease) continue;
    co_await sleep_for(3ms);  // the call
    if (i % 10 != 0) continue;
    const auto [error, noted] = co_await partner_.on_response(subject, 429, {}, {}, as_result);
    if (error) {
      note("partner", error, noted);
    } else {
      ++seen_["partner"]["other"];
    }
  }
}

}  // namespace observed
