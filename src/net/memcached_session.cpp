#include "net/memcached_session.hpp"

#include <random>

#include "check/clock.hpp"

namespace weir::net {
namespace {

redis_options link_to(const memcached_options& o, const memcached_server& server) {
  redis_options link;
  link.host = server.host;
  link.port = server.port;
  link.connect_timeout = o.connect_timeout;
  return link;
}

}  // namespace

memcached_session::memcached_session(const boost::asio::any_io_executor& executor,
                                     const memcached_options& options,
                                     const memcached_server& server, owner& o)
    : options_(options),
      link_(link_to(options, server)),
      owner_(o),
      driver_(*this, executor, true, options, std::random_device{}()) {
  driver_.make_stream(link_, tls_context());
}

void memcached_session::start(detail::check& c, std::string_view key) {
  if (driver_.call([&](core& k, core::time now) { k.submit(c, key, now); })) return;
  c.finish(detail::delivery::discard);
}

void memcached_session::on_received(core& c, core::time now, error e, std::size_t bytes) {
  c.received(e == error{}, bytes, now, detail::read_clock(options_.clock));
}

}  // namespace weir::net
