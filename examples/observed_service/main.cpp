// A service whose limiters Prometheus can watch. weir_metrics.cpp is the part to take into your own
// code; docs/observability.md explains it.
//
//   STORE_URL        the store; memory:// if not set
//   METRICS_ADDRESS  where to serve http://.../metrics; 127.0.0.1:9464 if not set
//
// SIGUSR1 stops the calls and prints what the callers saw, while the metrics are still served.
// SIGTERM and SIGINT do the same and end the program.
#include <prometheus/exposer.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <weir/weir.hpp>

#include "callers.hpp"
#include "weir_metrics.hpp"

namespace observed {
namespace {

using namespace std::chrono_literals;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// For the log. Here a subject may stand: a log keeps no series for it.
void log(const weir::event& e) {
  std::cerr << to_string(e.what);
  if (!e.address.empty()) std::cerr << " address=" << e.address;
  if (e.cause != weir::error{}) std::cerr << " cause=" << weir::name_of(e.cause);
  if (!e.resource.empty()) std::cerr << " resource=" << e.resource << " subject=" << e.subject;
  std::cerr << '\n';
}

/// Makes calls until a signal ends the program.
asio::awaitable<void> run_callers(weir::store store, weir::limiter clients, weir::limiter partner,
                                  weir::concurrency_limiter gate) {
  asio::signal_set signals(store.get_executor(), SIGINT, SIGTERM, SIGUSR1);
  callers crew(clients, partner, gate);
  int signal = SIGUSR1;
  while (signal == SIGUSR1) {
    signal = co_await signals.async_wait(asio::deferred);
    co_await crew.stop();
    std::cout << to_json(crew.seen()) << std::endl;
  }
  for (const weir::refused_subject& one : clients.stats().most_refused) {
    std::cerr << "refused subject=" << one.subject << " count=" << one.count << '\n';
  }
  store.close();
}

void run() {
  const std::string url = variable("STORE_URL", "memory://");
  asio::io_context context;
  const weir::store store = weir::open_store(context, url, log);
  const weir::limiter clients(
      store, "clients",
      weir::tiers{weir::token_bucket{.capacity = 10, .refill = weir::per_second(100)},
                  weir::fixed_window{.limit = 40, .window = 1s}},
      {.deny_cache_subjects = 1000, .deny_cache_duration = 20ms, .most_refused = 10});
  const weir::limiter partner(store, "partner",
                              weir::token_bucket{.capacity = 5, .refill = weir::per_second(50)},
                              {.cool_downs = true, .default_cool_down = 50ms});
  const weir::concurrency_limiter gate(store, "partner", {.limit = 2, .lease_duration = 10s});

  const auto metrics = std::make_shared<weir_metrics>(
      store, url.starts_with("memcached") ? "memcached" : "redis");
  metrics->add("clients", clients);
  metrics->add("partner", partner);
  metrics->add("partner-gate", gate);
  // Its threads read the statistics: it is destroyed before the context.
  prometheus::Exposer exposer(variable("METRICS_ADDRESS", "127.0.0.1:9464"));
  exposer.RegisterCollectable(metrics);
  std::cout << "serving port " << exposer.GetListeningPorts().front() << std::endl;

  asio::co_spawn(context, run_callers(store, clients, partner, gate),
                 [](std::exception_ptr failure) {
                   if (failure) std::rethrow_exception(failure);
                 });
  context.run();
}

}  // namespace
}  // namespace observed

int main() try {
  observed::run();
  return 0;
} catch (const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}
