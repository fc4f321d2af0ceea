#include "weir/limiter.hpp"

#include "limiter_core.hpp"

namespace weir {

limiter::limiter(const weir::store& store, std::string_view resource, const weir::policy& policy,
                 const limiter_options& options)
    : core_(std::make_shared<detail::limiter_core>(store.backend(), resource, policy, options)) {}

std::string_view limiter::resource() const noexcept { return core_->resource; }

boost::asio::any_io_executor limiter::get_executor() const noexcept {
  return core_->store->get_executor();
}

namespace detail {
namespace {

error validate(const check& c) {
  const std::size_t size = c.subject.view().size();
  if (size == 0 || size > max_subject_size) return error::invalid_subject;
  if (c.kind == check_kind::reset) return error{};
  if (c.cost < 1 || c.cost > max_units) return error::invalid_cost;
  if (c.cost > c.limiter->ceiling) return error::cost_exceeds_limit;
  return error{};
}

}  // namespace

void start_check(check& c) {
  if (const error e = validate(c); e != error{}) {
    c.ec = e;
    c.stage = check_stage::done;
    c.finish(delivery::post);
    return;
  }
  c.limiter->store->start(c);
}

void cancel_check(check& c, cancel_scope scope) { c.limiter->store->cancel(c, scope); }

}  // namespace detail
}  // namespace weir
