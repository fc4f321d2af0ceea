#include "weir/store.hpp"

#include <boost/system/system_error.hpp>
#include <chrono>
#include <string>

#include "base/random.hpp"
#include "check/store_backend.hpp"
#include "limiter/completion.hpp"
#include "limiter/limiter_impl.hpp"
#include "memcached/url.hpp"
#include "redis/url.hpp"
#include "weir/memcached_store.hpp"
#include "weir/memory_store.hpp"
#include "weir/redis_store.hpp"

namespace weir {

using namespace std::chrono_literals;

store::store(std::shared_ptr<detail::store_backend> backend) : backend_(std::move(backend)) {
  if (backend_->has_sink()) return;
  backend_->attach(std::make_unique<detail::completion>(backend_->get_executor()));
}

boost::asio::any_io_executor store::get_executor() const noexcept {
  return backend_->get_executor();
}

void store::close() { backend_->close(); }

store_stats store::stats() const {
  store_stats made{.calls = backend()->book().sum()};
  backend_->describe(made.connections);
  return made;
}

namespace detail {

std::shared_ptr<const limiter_spec> ping_target(const std::shared_ptr<store_backend>& backend) {
  return std::make_shared<limiter_impl>(backend, "weir.ping",
                                        tiers(fixed_window{.limit = 1, .window = 1s}));
}

ping_arguments::ping_arguments(std::chrono::microseconds longest)
    : arguments_of{.subject = copy_of_subject(std::to_string(random_number())),
                   .timeout = longest} {}

}  // namespace detail

const std::shared_ptr<detail::store_backend>& store::backend() const {
  if (backend_ == nullptr) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "the store was moved from");
  }
  return backend_;
}

store open_store(const boost::asio::any_io_executor& executor, std::string_view url,
                 event_handler on_event) {
  if (memcached::is_memcached_url(url)) {
    memcached_options options = memcached::parse_url(url);
    options.on_event = std::move(on_event);
    return make_memcached_store(executor, std::move(options));
  }
  redis::store_url parsed = redis::parse_store_url(url);
  if (parsed.kind == redis::store_url::kind::memory) {
    return make_memory_store(executor, {.on_event = std::move(on_event)});
  }
  parsed.redis.on_event = std::move(on_event);
  return make_redis_store(executor, std::move(parsed.redis));
}

}  // namespace weir
