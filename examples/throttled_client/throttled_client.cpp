#include "throttled_client.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>

namespace throttled {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

/// The vendor counts a request when it arrives, weir when its reservation is due. Between the two
/// lie a timer, a busy processor and a network, which take any time. The limits allow for that:
/// each call holds one of the `at_once` leases from before its reservation until it has its
/// response. So in any stretch of time the vendor sees the calls whose reservations lie in it, and
/// the calls that were under way when it began, at most `at_once`. If weir admits that many fewer,
/// the vendor never sees too many.
///
/// The tenth of a percent is for the clocks of the store and of the vendor, which do not run
/// equally fast.
weir::tiers policy_for(const vendor_limits& vendor) {
  require(
      vendor.at_once < vendor.per_second && vendor.at_once < vendor.saved_up,
      "at_once has to be less than what the vendor allows in a second, and than what it saves up");
  return weir::tiers{
      weir::sliding_log{.limit = vendor.per_second - vendor.at_once, .window = 1001ms},
      weir::token_bucket{.capacity = vendor.saved_up - vendor.at_once,
                         .refill = {vendor.rate * 999, 1000s}}};
}

/// Sleeps for `time` and a random part of `spread`, so that no two callers keep step.
asio::awaitable<void> nap(std::chrono::microseconds time, std::chrono::microseconds spread) {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> more(0, spread.count());
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           time + std::chrono::microseconds(more(random)));
  co_await timer.async_wait(asio::deferred);
}

/// After a broken connection it is unknown whether the vendor ran the request. It may be sent again
/// only if a second run changes nothing: by its method, or because the vendor recognises it by an
/// idempotency key.
bool may_be_repeated(const http_request& request) {
  switch (request.method()) {
    case http::verb::get:
    case http::verb::head:
    case http::verb::options:
    case http::verb::put:
    case http::verb::delete_:
      return true;
    default:
      return request.find("Idempotency-Key") != request.end();
  }
}

}  // namespace

throttled_client::throttled_client(const weir::store& store, asio::ssl::context& tls,
                                   const vendor_limits& limits, client_options options)
    : options_(std::move(options)),
      tls_(tls),
      gate_(store, options_.host, {.limit = limits.at_once, .lease_duration = options_.lease}),
      limiter_(store, options_.host, policy_for(limits), {.cool_downs = true}) {
  require(2 * options_.lease >= 3 * options_.timeout, "a call may take longer than a lease");
}

asio::awaitable<http_response> throttled_client::call(http_request& request) {
  for (int attempt = 1;; ++attempt) {
    const bool last = attempt == options_.attempts;
    bool sent = false;
    try {
      // A name lookup has no time limit, so it comes before the lease.
      if (addresses_.empty()) co_await look_up();
      const weir::lease lease = co_await enter();
      http_response response = co_await while_held(lease, request, sent);
      // A refused request was not run, so any request may be sent again. No wait is needed here:
      // the cool-down is in the store, and the next reservation comes after it.
      if (last || response.result() != http::status::too_many_requests) co_return response;
      continue;
    } catch (const boost::system::system_error& e) {
      if (last || !may_pass(e.code()) || (sent && !may_be_repeated(request))) throw;
    }
    co_await nap(100ms * attempt, 100ms);
  }
}

/// A gate has no queue: a refused caller asks again.
asio::awaitable<weir::lease> throttled_client::enter() {
  const auto deadline = std::chrono::steady_clock::now() + options_.longest_wait;
  for (auto pause = 4ms;; pause = std::min(2 * pause, 64ms)) {
    weir::lease lease = co_await gate_.enter(options_.account);
    if (lease) co_return lease;
    if (std::chrono::steady_clock::now() > deadline) throw too_busy("no lease");
    co_await nap(pause, pause);
  }
}

/// One attempt, which ends when the lease is lost, because another caller may hold it then. Asio's
/// `||` would wait for that loss if the attempt throws.
asio::awaitable<http_response> throttled_client::while_held(const weir::lease& lease,
                                                            http_request& request, bool& sent) {
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, attempt(lease, request, sent), asio::deferred), lease.lost());
  auto [order, failure, response, lost] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (order[0] == 1) options_.displaced();
  if (failure) std::rethrow_exception(failure);
  co_return std::move(response);
}

asio::awaitable<http_response> throttled_client::attempt(const weir::lease& lease,
                                                         http_request& request, bool& sent) {
  // Another process may have begun a cool-down while this one slept until its reservation. So the
  // store is asked once more, with a cool-down of zero, which changes nothing; the next reservation
  // then comes after the cool-down.
  connection vendor;
  do {
    co_await wait_for_reservation();
    // Not before: the server may close an idle connection during the wait.
    if (!vendor || !vendor->is_usable(options_.idle)) vendor = take_idle();
    if (!vendor) vendor = co_await open();
    options_.prepare(request);
  } while ((co_await limiter_.cool_down(options_.account, 0us)).cooling_down);
  // If this process was stopped for a while, the lease may be lost before lost() reports it.
  if (!lease.is_held()) {
    options_.displaced();
    throw boost::system::system_error(asio::error::operation_aborted);
  }

  sent = true;
  http_response response = co_await vendor->exchange(request, options_.timeout);

  // For every response, and before the lease is given back: the caller that enters next has to know
  // of a cool-down.
  const auto [ec, told] = co_await limiter_.on_response(options_.account, response, {},
                                                        asio::as_tuple(asio::deferred));
  if (!ec && told.cooling_down) options_.paused();
  // If the store cannot be told, a response is returned all the same, except a 429.
  if (ec && response.result() == http::status::too_many_requests) {
    throw boost::system::system_error(ec);
  }
  idle_.push_back(std::move(vendor));  // take_idle() checks whether it is usable
  co_return response;
}

/// Makes a reservation as soon as one is near, and waits for it.
asio::awaitable<void> throttled_client::wait_for_reservation() {
  const auto deadline = std::chrono::steady_clock::now() + options_.longest_wait;
  for (;;) {
    const weir::decision d = co_await limiter_.acquire(options_.account,
                                                       {.max_wait = options_.look_ahead});
    if (d.allowed) co_return;
    if (std::chrono::steady_clock::now() + d.retry_after > deadline)
      throw too_busy("no reservation");
    co_await nap(d.retry_after, options_.look_ahead);
  }
}

/// The connection that was used last, if it is still usable.
throttled_client::connection throttled_client::take_idle() {
  while (!idle_.empty()) {
    connection last = std::move(idle_.back());
    idle_.pop_back();
    if (last->is_usable(options_.idle)) return last;
  }
  return nullptr;
}

asio::awaitable<throttled_client::connection> throttled_client::open() {
  if (addresses_.empty()) co_await look_up();
  auto opened = std::make_unique<https_connection>(co_await asio::this_coro::executor, tls_);
  const addresses to = addresses_;
  try {
    co_await opened->connect(to, options_.host, options_.timeout);
  } catch (...) {
    addresses_ = {};  // the host may have moved
    throw;
  }
  co_return opened;
}

asio::awaitable<void> throttled_client::look_up() {
  asio::ip::tcp::resolver resolver(co_await asio::this_coro::executor);
  addresses_ = co_await resolver.async_resolve(options_.host, options_.port, asio::use_awaitable);
}

asio::awaitable<void> throttled_client::connect(int connections) {
  for (int i = 0; i < connections; ++i) idle_.push_back(co_await open());
}

}  // namespace throttled
