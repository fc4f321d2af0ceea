#include "check/store_backend.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "check/limiter_spec.hpp"
#include "weir/detail/check_operation.hpp"

namespace weir::detail {

store_executor executor_of(const limiter_spec& limiter) noexcept {
  const store_backend& store = *limiter.store;
  return {store.get_executor(), store.usual_executor()};
}

store_backend::store_backend(const boost::asio::any_io_executor& executor, event_handler&& on_event)
    : executor_(executor) {
  if (on_event) on_event_ = std::make_shared<const event_handler>(std::move(on_event));
  if (!executor) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "the store's executor is empty");
  }
  const auto* const usual = executor.target<boost::asio::io_context::executor_type>();
  if (usual != nullptr) usual_executor_.emplace(*usual);
}

void store_backend::report(event_kind what, error cause, const std::string& address) noexcept try {
  if (has_event_handler()) report({.what = what, .cause = cause, .address = address});
} catch (const std::bad_alloc&) {  // this event is lost
}

void store_backend::report(event&& e, const std::shared_ptr<const event_handler>& own) noexcept {
  const auto& handler = own != nullptr ? own : on_event_;
  if (handler == nullptr || !executor_) return;
  try {
    e.at = system_time();
    boost::asio::post(executor_, [handler, e = std::move(e)] { (*handler)(e); });
  } catch (...) {  // no memory, or the executor's own error: this event is lost
  }
}

void store_backend::tell_of_close(const std::shared_ptr<void>& keep_alive) {
  for (const auto& limiter : limiters_.close()) limiter->store_closes(limiter, keep_alive);
  if (has_sink()) sink_->close(keep_alive);  // no sink: making the first handle failed
}

void store_backend::tell_of_shutdown(check_list&& dropped) noexcept {
  executor_ = {};
  discard(std::move(dropped));
  if (has_sink()) sink_->context_shut_down();
  // present() keeps all of them alive in the loop: dropping the handlers of one may drop the last
  // handle of another.
  for (const auto& limiter : limiters_.present()) limiter->context_shut_down();
}

bool is_store_failure(const error_code& ec) noexcept {
  if (ec == condition::invalid_input || ec == error::store_closed) return false;
  // Too many calls of this process are pending, or other processes change the subject all the time.
  // If a failure policy let such calls pass, the limit would be lifted just when it matters.
  if (ec == error::overloaded || ec == error::store_contention) return false;
  // False for operation_aborted and other errors that are not weir's.
  return ec == condition::not_counted || ec == condition::may_have_counted;
}

}  // namespace weir::detail
