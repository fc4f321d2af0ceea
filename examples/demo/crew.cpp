#include "crew.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <weir/store.hpp>

#include "caller.hpp"

namespace demo {

namespace asio = boost::asio;
using namespace std::chrono_literals;

tally run_callers(const job& work, phase which, std::chrono::seconds duration) {
  asio::io_context context(1);
  std::optional<throttle> shared;
  if (which == phase::throttled) {
    const auto store = weir::open_store(context.get_executor(), work.store);
    // As many places as callers: each waits in line once for each call, and none is turned away.
    const auto policy = policy_for(work.allowance, work.all_callers);
    shared.emplace(throttle{weir::limiter(store, "vendor-api", policy), work.account});
  }

  const asio::ip::tcp::endpoint vendor(asio::ip::address_v4::loopback(), work.vendor_port);
  const auto end = std::chrono::steady_clock::now() + duration;
  tally results;
  std::exception_ptr failure;
  int busy = work.callers;
  const auto caller_left = [&](std::exception_ptr error) {
    if (error && !failure) failure = error;
    // Not left to run dry: the store's open connection counts as work.
    if (--busy == 0 || failure) context.stop();
  };
  for (int i = 0; i < work.callers; ++i) {
    asio::co_spawn(context, make_calls(vendor, shared ? &*shared : nullptr, end, &results),
                   caller_left);
  }
  context.run();
  if (failure) std::rethrow_exception(failure);
  return results;
}

void probe_store(const std::string& url) {
  asio::io_context context(1);
  const auto store = weir::open_store(context.get_executor(), url);
  const weir::limiter limiter(store, "vendor-api", policy_for(1, 1));
  weir::error_code result;
  const weir::fetch_options options{.timeout = 2s};
  limiter.fetch("probe", options, [&](weir::error_code error, weir::decision) {
    result = error;
    context.stop();
  });
  context.run();
  if (result) throw boost::system::system_error(result);
}

}  // namespace demo
