#include "weir/redis_store.hpp"

#include "net/session.hpp"

namespace weir {

store make_redis_store(const boost::asio::any_io_executor& executor, redis_options options) {
  auto session = std::make_shared<net::session>(executor, std::move(options));
  session->open();
  // Pending I/O keeps the session alive; what users hold is a handle whose end closes it.
  auto* raw = session.get();
  return store(std::shared_ptr<detail::store_backend>(
      raw, [session = std::move(session)](detail::store_backend*) { session->close(); }));
}

}  // namespace weir
