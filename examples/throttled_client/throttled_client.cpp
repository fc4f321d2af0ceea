#include "throttled_client.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <random>

namespace throttled {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

/// The vendor counts when a request reaches it, weir when its turn comes; between the two lie a timer, a busy processor,
/// a network, and nobody knows how long they take. It does not matter. Each call holds one of the `at_once` places from
/// before its turn until its answer is here. So those that the vendor sees in some time are those whose turn came in that
/// time, and those which were under way when it began: `at_once` at the most. If weir admits so many fewer, the vendor
/// never sees too many, however late they are.
///
/// The tenth of a percent is for two clocks that do not run equally fast: of the store's host, and of the vendor's.
weir::tiers policy_for(const vendor_limits& vendor) {
  return weir::tiers{
      weir::sliding_log{.limit = vendor.per_second - vendor.at_once, .window = 1001ms},
      weir::token_bucket{.capacity = vendor.saved_up - vendor.at_once,
                         .refill = {vendor.rate * 999, 1000s}}};
}

/// And up to `spread` longer, so that no two callers keep step.
asio::awaitable<void> nap(std::chrono::microseconds time, std::chrono::microseconds spread) {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> more(0, spread.count());
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           time + std::chrono::microseconds(more(random)));
  co_await timer.async_wait(asio::deferred);
}

/// Nobody knows what has become of a request whose connection broke. Only one that does no more the second time may be
/// sent twice: by its method, or because the vendor can tell by a key that it is the same.
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

bool is_weirs(const weir::error_code& ec) { return ec.category() == weir::error_category(); }

}  // namespace

throttled_client::throttled_client(const weir::store& store, asio::ssl::context& tls,
                                   const vendor_limits& limits, client_options options)
    : options_(std::move(options)),
      tls_(tls),
      gate_(store, "vendor", {.limit = limits.at_once, .lease = options_.lease}),
      limiter_(store, "vendor", policy_for(limits), {.feedback = true}),
      // Of the same name, and so held back by the same pauses; it refuses for nothing else.
      pauses_(store, "vendor", weir::fixed_window{.limit = weir::unlimited, .window = 1s},
              {.feedback = true}) {}

asio::awaitable<http_response> throttled_client::call(http_request& request) {
  for (int attempt = 1;; ++attempt) {
    const bool last = attempt == options_.attempts;
    bool sent = false;
    try {
      const weir::lease place = co_await enter();
      http_response response = co_await while_held(place, request, sent);
      // Turned away, it has not been done, and may be tried again whatever it is. There is nothing to wait for
      // here: the pause is in the store, and the next turn behind it.
      if (last || response.result() != http::status::too_many_requests) co_return response;
      continue;
    } catch (const boost::system::system_error& e) {
      if (last || is_weirs(e.code()) || (sent && !may_be_repeated(request))) throw;
    }
    co_await nap(100ms * attempt, 100ms);
  }
}

/// There is no line at the gate: who finds it full asks again.
asio::awaitable<weir::lease> throttled_client::enter() {
  const auto deadline = std::chrono::steady_clock::now() + options_.longest_wait;
  for (auto pause = 4ms;; pause = std::min(2 * pause, 32ms)) {
    weir::lease place = co_await gate_.enter(options_.account);
    if (place) co_return place;
    if (std::chrono::steady_clock::now() > deadline) throw too_busy("no place");
    co_await nap(pause, pause);
  }
}

/// One attempt, which ends when the place is lost: somebody else may have it then. (Not `||` of Asio, which would wait for
/// that loss if the attempt throws.)
asio::awaitable<http_response> throttled_client::while_held(const weir::lease& place,
                                                            http_request& request, bool& sent) {
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, attempt(place, request, sent), asio::deferred), place.lost());
  auto [order, failure, response, lost] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (failure) std::rethrow_exception(failure);
  co_return std::move(response);
}

asio::awaitable<http_response> throttled_client::attempt(const weir::lease& place,
                                                         http_request& request, bool& sent) {
  connection vendor = co_await take_connection();  // first: a turn should not grow old over it
  co_await wait_for_turn(request);
  // If we were stopped for a while, the place may be gone before we could be told.
  if (!place.is_held()) throw boost::system::system_error(asio::error::operation_aborted);

  sent = true;
  http_response response = co_await vendor->exchange(request, options_.timeout);

  // For every response, and before the place is given back: if the vendor wants a pause, the next one in is to know.
  const auto [ec, told] = co_await limiter_.on_response(options_.account, response, {},
                                                        asio::as_tuple(asio::deferred));
  if (!ec && told.held) options_.paused();
  // An answer is not thrown away because the store cannot be told; a refusal is nothing to go on with.
  if (ec && response.result() == http::status::too_many_requests) {
    throw boost::system::system_error(ec);
  }
  if (response.keep_alive()) idle_.push_back(std::move(vendor));
  co_return response;
}

/// Books a turn as soon as it is near, and waits for it. Nobody who sleeps is told of a pause that begins meanwhile, so one
/// more look; the next turn is then behind the pause.
asio::awaitable<void> throttled_client::wait_for_turn(http_request& request) {
  const auto deadline = std::chrono::steady_clock::now() + options_.longest_wait;
  for (;;) {
    const weir::decision turn = co_await limiter_.acquire(options_.account,
                                                          {.max_wait = options_.look_ahead});
    if (!turn.allowed) {
      if (std::chrono::steady_clock::now() + turn.retry_after > deadline) throw too_busy("no turn");
      co_await nap(turn.retry_after, options_.look_ahead);
      continue;
    }
    options_.prepare(request);
    const weir::decision now = co_await pauses_.fetch(options_.account);
    if (now.allowed) co_return;
  }
}

asio::awaitable<throttled_client::connection> throttled_client::take_connection() {
  while (idle_.empty()) co_await connect(1);
  connection taken = std::move(idle_.back());
  idle_.pop_back();
  co_return taken;
}

asio::awaitable<void> throttled_client::connect(int connections) {
  auto executor = co_await asio::this_coro::executor;
  for (int i = 0; i < connections; ++i) {
    auto opened = std::make_unique<https_connection>(executor, tls_);
    co_await opened->connect(options_.host, options_.port, options_.timeout);
    idle_.push_back(std::move(opened));
  }
}

}  // namespace throttled
