#include "client_acquirer.hpp"

#include <boost/asio/deferred.hpp>
#include <utility>

namespace weir::bench {

boost::asio::awaitable<void> acquire_for_ever(limiter from, std::string subject,
                                              std::function<void(const decision&)> note) {
  for (;;) {
    const decision d = co_await from.acquire(subject, {.max_wait = {}});
    note(d);
  }
}

}  // namespace weir::bench
