// The code of README.md and docs/*.md, compiled and never run. check.cmake fails if a document
// shows a block of C++ that is neither here nor in another example, white space aside. Change both.
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <weir/feedback.hpp>
#include <weir/weir.hpp>

#include "../throttled_client/throttled_client.hpp"

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

// What the documents leave to the reader.
struct response {
  int status;
  std::string body;
};
struct token_usage {
  std::int64_t total_tokens;
};
asio::awaitable<response> send_request();
asio::awaitable<void> send_request(std::string account);
asio::awaitable<void> work_that_never_throws();
asio::awaitable<token_usage> ask_the_model();
void report_busy(const weir::decision& refusal);
void report_busy(std::chrono::microseconds retry_after);
void come_back_after(std::chrono::microseconds retry_after);
void send();
void fix_the_call();
void retry_later();
void do_not_retry();
std::string read_current_token();

namespace readme {

asio::awaitable<void> leases(weir::store store) {
  weir::concurrency_limiter gate(store, "partner-api", {.limit = 8, .lease_duration = 10s});
  weir::lease lease = co_await gate.enter("account-42");
  if (!lease) co_return report_busy(lease.decision());  // the gate is full: not an error
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, send_request(), asio::deferred), lease.lost());
  auto [order, failure, answer, lost] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (failure) std::rethrow_exception(failure);  // operation_aborted, if the lease was lost first
}

asio::awaitable<void> outcomes(weir::limiter limiter) {
  auto [ec, d] = co_await limiter.record("account-42", asio::as_tuple(asio::deferred));
  if (!ec && d.allowed)
    send();
  else if (!ec)
    come_back_after(d.retry_after);
  else if (ec == weir::condition::invalid_input)
    fix_the_call();  // retrying is pointless
  else if (ec == weir::condition::not_counted)
    retry_later();  // retrying cannot count twice
  else
    do_not_retry();  // may_have_counted, or cancelled: it may have been counted
}

}  // namespace readme

namespace cluster {

void buckets(weir::store store) {
  weir::limiter partner{
      store, "partner-api", weir::gcra{weir::per_second(100), 20}, {.subject_buckets = 64}};
}

}  // namespace cluster

namespace waiting {

asio::awaitable<void> deny_cache(weir::store store) {
  weir::limiter partner{store,
                        "partner-api",
                        weir::fixed_window{.limit = 1000, .window = 1h},
                        {.deny_cache_subjects = 10'000}};
  const weir::decision d = co_await partner.record("account-42");
  if (d.source == weir::source::deny_cache) co_return report_busy(d.retry_after);
}

asio::awaitable<void> local_units(weir::store store, std::int64_t& answered_here) {
  weir::limiter partner{
      store,
      "partner-api",
      weir::token_bucket{.capacity = 200'000, .refill = weir::per_second(1'000'000)},
      {.local_units = 10'000}};
  const weir::decision d = co_await partner.record("account-42");
  if (d.source == weir::source::local_units) ++answered_here;
}

asio::awaitable<void> acquire(weir::limiter partner) {
  const weir::decision d = co_await partner.acquire("account-42",
                                                    {.cost = 3, .max_wait = 2s, .priority = 1});
  if (!d.allowed) co_return report_busy(d.retry_after);  // more than 2 s away: nothing was reserved
  co_await send_request();                               // the reserved time has come
}

asio::awaitable<void> several_limits(weir::limiter per_customer, weir::limiter in_total,
                                     std::string customer) {
  const weir::decision own = co_await per_customer.acquire(customer, {.max_wait = 2s});
  if (!own.allowed) co_return report_busy(own.retry_after);
  const weir::decision all = co_await in_total.acquire("all", {.max_wait = 2s});
  if (!all.allowed) {
    co_await per_customer.refund(customer, own);
    co_return report_busy(all.retry_after);
  }
}

asio::awaitable<void> cancelled(weir::limiter partner, asio::steady_timer& stop) {
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      partner.acquire("account-42", asio::bind_executor(executor, asio::deferred)),
      stop.async_wait(asio::bind_executor(executor, asio::deferred)));
  auto [order, ec, d, stopped] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (ec == asio::error::operation_aborted) co_return;  // stopped: the reservation goes back
}

}  // namespace waiting

namespace policies_as_text {

weir::limiter partner_of(const weir::store& store) {
  const weir::tiers rules = weir::parse_policy("gcra 10/s, burst 5; fixed_window 5000/day, epoch");
  const weir::limiter partner(store, "partner-api", rules);
  return partner;
}

}  // namespace policies_as_text

namespace in_memory {

void serve();

void without_a_store(std::string_view address) {
  weir::local_limiter all{weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)}};
  weir::local_keyed_limiter each{weir::gcra{.rate = weir::per_second(5), .burst = 10}};
  if (each.allowed(address) && all.allowed()) serve();
}

}  // namespace in_memory

namespace settling {

asio::awaitable<void> one(weir::limiter tokens, std::string account) {
  const weir::decision d = co_await tokens.record(account, {.cost = 4000});  // an upper estimate
  if (!d.allowed) co_return;
  const auto usage = co_await ask_the_model();
  co_await tokens.settle(account, d, usage.total_tokens);  // 1212 of them: 2788 come back
}

asio::awaitable<void> several(weir::store store, std::string account) {
  weir::limiter requests{
      store, "requests", weir::fixed_window{.limit = 60, .window = 1min}, {.group = "model"}};
  weir::limiter tokens{store,
                       "tokens",
                       weir::token_bucket{.capacity = 90'000, .refill = {90'000, 1min}},
                       {.group = "model"}};

  const weir::joint_decision d = co_await weir::record_all(requests.on(account),
                                                           tokens.on(account, 4'000));
  if (!d.allowed) co_return;
  const auto usage = co_await ask_the_model();
  co_await weir::settle_all(d, requests.on(account), tokens.on(account, usage.total_tokens));
}

}  // namespace settling

namespace concurrency {

weir::store opened_store();
weir::store store = opened_store();

weir::concurrency_limiter gate(store, "partner-api", {.limit = 8, .lease_duration = 10s});

asio::awaitable<void> call_partner(weir::concurrency_limiter gate, std::string account) {
  weir::lease lease = co_await gate.enter(account);
  if (!lease) co_return report_busy(lease.decision());  // the gate is full: not an error
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, send_request(account), asio::deferred), lease.lost());
  auto [order, failure, lost] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (failure) std::rethrow_exception(failure);  // operation_aborted, if the lease was lost first
}  // the lease is given back here

asio::awaitable<weir::lease> wait_for_lease(weir::concurrency_limiter gate, std::string account,
                                            std::chrono::milliseconds max_wait) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  std::minstd_rand random(std::random_device{}());
  const auto end = std::chrono::steady_clock::now() + max_wait;
  for (int longest = 4;; longest = std::min(2 * longest, 64)) {
    weir::lease lease = co_await gate.enter(account);
    const std::chrono::milliseconds pause(std::uniform_int_distribution(1, longest)(random));
    if (lease || std::chrono::steady_clock::now() + pause > end) co_return lease;
    timer.expires_after(pause);
    co_await timer.async_wait(asio::deferred);
  }
}

asio::awaitable<void> race_that_never_throws(weir::lease lease) {
  co_await (work_that_never_throws() || lease.lost(asio::use_awaitable));
}

asio::awaitable<void> signal(weir::concurrency_limiter gate, std::string account) {
  asio::cancellation_signal stop;
  weir::lease lease = co_await gate.enter(account);
  if (!lease) co_return;
  // This coroutine was spawned on a strand, or on a context with one thread.
  auto executor = co_await asio::this_coro::executor;
  lease.cancel_when_lost(stop, executor);
  co_await asio::co_spawn(executor, send_request(account),
                          asio::bind_cancellation_slot(stop.slot(), asio::use_awaitable));
}

asio::awaitable<void> with_limiters(weir::concurrency_limiter gate, weir::limiter per_second,
                                    weir::limiter per_day, std::string account) {
  const std::array limits{per_second.on(account), per_day.on("all")};
  weir::lease lease = co_await gate.enter(account, limits);  // one claim needs no array
  co_await weir::settle_all(lease.decision(), per_second.on(account), per_day.on("all", 3));
}

}  // namespace concurrency

namespace lifetime {

asio::awaitable<void> options_in_braces() {
  const auto executor = co_await asio::this_coro::executor;
  weir::store store = weir::make_redis_store(executor, {.host = "cache", .tls = true});
}

void start() {
  asio::io_context context;
  weir::store store = weir::open_store(context.get_executor(), "redis://127.0.0.1:6379");
  weir::limiter partner{store, "partner-api",
                        weir::gcra{.rate = weir::per_second(100), .burst = 20}};
}

}  // namespace lifetime

namespace vendor_feedback {

void read(weir::time_point now) {
  const weir::header_field headers[] = {
      {"Date", "Tue, 21 Apr 2026 14:38:02 GMT"},
      {"X-RateLimit-Remaining", "0"},
      {"X-RateLimit-Reset", "1776782312"},
  };
  const weir::vendor_feedback said = weir::read_feedback(429, headers, now);
  // said.refused: true
  // said.blocked_for: 30 s, said.source: feedback_source::x_ratelimit
  // said.requests.remaining: 0, said.requests.reset_after: 30 s
  static_cast<void>(said);
}

void refilling(int status, std::span<const weir::header_field> headers, weir::time_point now) {
  auto said = weir::read_feedback(status, headers, now, {.retry_after_decides = false});
  static_cast<void>(said);
}

asio::awaitable<void> hold_back(weir::store store, std::span<const weir::header_field> headers) {
  weir::limiter partner{store,
                        "partner-api",
                        weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)},
                        {.cool_downs = true}};

  weir::decision d = co_await partner.record("account-42");
  if (!d.allowed) co_return come_back_after(d.retry_after);  // d.cooling_down: the vendor said so
  response r = co_await send_request();
  co_await partner.on_response("account-42", r.status, headers);  // or a Boost.Beast response
}

asio::awaitable<void> refused_with_403(weir::limiter partner,
                                       std::span<const weir::header_field> headers) {
  response r = co_await send_request();
  // 403 {"error": {"errors": [{"reason": "rateLimitExceeded"}]}}
  const bool refused = r.status == 403 && r.body.find("rateLimitExceeded") != r.body.npos;
  co_await partner.on_response("account-42", r.status, headers, {.refused = refused});
}

asio::awaitable<void> refused_with_200(weir::limiter partner,
                                       std::span<const weir::header_field> headers) {
  response r = co_await send_request();
  // 200 {"ok": false, "error": "too_many_requests"}
  const bool refused = r.status == 200 && r.body.find("too_many_requests") != r.body.npos;
  co_await partner.on_response("account-42", r.status, headers, {.refused = refused});
}

}  // namespace vendor_feedback

namespace observability {

void print(const weir::store& store, const weir::limiter& partner) {
  const weir::limiter_stats seen = partner.stats();
  std::cout << seen.calls.all_allowed() << " allowed, " << seen.calls.all_refused() << " refused, "
            << seen.waiting << " waiting; 99 of 100 waits took at most "
            << seen.waited.quantile(0.99).count() << " us\n";
  for (const auto& [error, count] : seen.calls.failed) {
    std::cout << weir::name_of(error) << ": " << count << "\n";
  }
  for (const weir::refused_subject& one : seen.most_refused) {
    std::cout << one.subject << " was refused about " << one.count << " times\n";
  }
  for (const weir::connection_stats& link : store.stats().connections) {
    std::cout << link.address << " is " << to_string(link.state) << "\n";
  }
}

void log_event(const weir::event& e) {
  std::cerr << to_string(e.what);
  if (e.what == weir::event_kind::connection_lost) {
    std::cerr << " address=" << e.address << " cause=" << weir::name_of(e.cause);
  }
  if (!e.resource.empty()) std::cerr << " resource=" << e.resource << " subject=" << e.subject;
  std::cerr << "\n";
}

weir::store open_cache(const asio::any_io_executor& executor) {
  weir::redis_options options = weir::parse_redis_url("redis://cache.example.com");
  options.on_event = log_event;
  return weir::make_redis_store(executor, std::move(options));
}

asio::awaitable<int> answer_health_check(weir::store store) {
  const auto [ec] = co_await store.ping(200ms, asio::as_tuple(asio::deferred));
  if (ec) std::cerr << "the store fails: " << ec.message() << "\n";
  co_return ec ? 503 : 200;
}

}  // namespace observability

namespace sentinel {

weir::store expiring_tokens(asio::any_io_executor executor) {
  weir::redis_options options = weir::parse_redis_url("rediss://cache.example.com");
  options.credentials = [] { return weir::redis_credentials{"service", read_current_token()}; };
  const weir::store store = weir::make_redis_store(executor, options);
  return store;
}

}  // namespace sentinel

namespace throttled {

asio::awaitable<void> your_own_code(asio::io_context& context, vendor_limits limits) {
  asio::ssl::context tls(asio::ssl::context::tls_client);
  tls.set_default_verify_paths();
  weir::store store = weir::open_store(context.get_executor(), "redis://127.0.0.1:6379");
  throttled::throttled_client vendor(store, tls, limits,
                                     {.host = "api.example.com", .account = "account-42"});

  http_request request(http::verb::get, "/v1/things", 11);
  request.set(http::field::host, "api.example.com");
  http_response response = co_await vendor.call(request);
}

}  // namespace throttled
