#include <boost/system/system_error.hpp>

#include "net/cluster_session.hpp"
#include "net/session.hpp"
#include "net/tls.hpp"
#include "redis/options_check.hpp"
#include "redis/script/scripts.hpp"
#include "weir/redis_store.hpp"

namespace weir {
namespace {

/// Pending I/O keeps the session alive. Users get a separate handle whose end closes the session.
template <class Session>
store opened(std::shared_ptr<Session> session) {
  store handle(std::shared_ptr<detail::store_backend>(
      session.get(), [session](detail::store_backend*) { session->close(); }));
  session->open();
  return handle;
}

}  // namespace

store make_redis_store(const boost::asio::any_io_executor& executor, redis_options options) {
  if (const std::string fault = redis::fault_of(options); !fault.empty()) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "redis_options: " + fault);
  }
  redis::scripts();  // makes them here, where a fault can be thrown
  net::tls_context tls = net::make_tls_context(options);
  if (!options.cluster_seeds.empty()) {
    return opened(
        std::make_shared<net::cluster_session>(executor, std::move(options), std::move(tls)));
  }
  net::tls_context of_sentinels;
  if (!options.sentinel.addresses.empty()) {
    of_sentinels = net::make_tls_context(redis::link_to_sentinel(options));
  }
  return opened(std::make_shared<net::session>(
      executor, std::move(options), net::tls_contexts{std::move(tls), std::move(of_sentinels)}));
}

store make_redis_store(const boost::asio::any_io_executor& executor) {
  return make_redis_store(executor, redis_options{});
}

}  // namespace weir
