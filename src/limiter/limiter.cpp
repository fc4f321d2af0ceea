#include "weir/limiter.hpp"
#include "check/store_backend.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "limiter/completion.hpp"
#include "limiter/limiter_impl.hpp"
#include "policy/require_valid.hpp"

namespace weir {

limiter::limiter(const weir::store& store, std::string_view resource, const weir::policy& rule,
                 const limiter_options& options)
    : limiter(store, resource, weir::tiers(rule), options) {}

limiter::limiter(const weir::store& store, std::string_view resource, const weir::tiers& rules,
                 const limiter_options& options) try
    : core_(std::make_shared<detail::limiter_impl>(store.backend(), resource, rules, options)) {
} catch (const boost::system::system_error& e) {
  detail::rethrow_with_name(e, resource);
}

limiter_stats limiter::stats() const { return detail::impl_of(*core_).stats(); }

std::string_view limiter::resource() const noexcept { return core_->resource; }

weir::tiers limiter::policy() const noexcept { return weir::tiers(detail::impl_of(*core_).rules); }

boost::asio::any_io_executor limiter::get_executor() const noexcept {
  return core_->store->get_executor();
}

limiter::feedback_arguments limiter::arguments_after(std::string_view subject, int status,
                                                     std::span<const header_field> headers,
                                                     const response_options& options) const {
  const detail::limiter_impl& own = detail::impl_of(*core_);
  const time_point now = policies::to_time_point(detail::read_clock({}));
  if (options.refused) status = 429;
  const vendor_feedback said = read_feedback(status, headers, now, own.response_parsing);
  const auto asked = said.blocked_for.value_or(std::chrono::microseconds{0});
  const bool guesses = said.refused && asked.count() == 0;
  const auto duration = guesses ? own.default_cool_down : asked;
  const vendor_quota& quota = own.sync_remaining_with == vendor_count::tokens ? said.tokens
                                                                              : said.requests;
  const bool is_over = quota.reset_after == std::chrono::microseconds{0};  // the vendor's window
  const bool follows = own.sync_remaining_with != vendor_count::none && quota.remaining &&
                       !is_over && *quota.remaining < options.known_remaining;
  detail::short_text name = detail::copy_of_subject(subject);
  const auto cool_down = [&](bool may_double) {
    return detail::arguments_of<detail::cool_down_request>{
        std::move(name),
        options.timeout,
        duration.count(),
        {.origin = cool_down_origin::response,
         .longest_guess = may_double && own.doubles_guesses ? own.max_cool_down : 0}};
  };
  if (duration.count() > 0) return cool_down(guesses);
  const bool is_served = status < 400;
  if (is_served && own.doubles_guesses && own.met->take(subject)) return cool_down(true);
  // max_units lowers nothing, so nothing is sent.
  const std::int64_t left = follows ? std::min(*quota.remaining, max_units) : max_units;
  return detail::arguments_of<detail::settle_request>{
      std::move(name),
      options.timeout,
      left,
      {.cause = detail::settle_cause::vendor, .vendor_limit = quota.limit.value_or(0)}};
}

}  // namespace weir
