#include "limiter/limiter_impl.hpp"

#include <new>
#include <utility>

#include "base/random.hpp"
#include "check/store_backend.hpp"
#include "policy/require_valid.hpp"
#include "text/quoted.hpp"
#include "weir/concurrency_limiter.hpp"

namespace weir::detail {
namespace {

using policies::require_valid;

/// Throws unless the option is one of its enumerators, of which `last` is the last: a number from a
/// file that is cast to one may be another, and would count as some of them.
template <class Enum>
void require_known(const char* option, Enum value, Enum last) {
  require_valid(value <= last, std::string(option) + ": " +
                                   std::to_string(static_cast<int>(value)) +
                                   " is not one of its enumerators");
}

void check_enumerators(const limiter_options& options) {
  require_known("on_failure", options.on_failure, on_failure::fallback);
  require_known("overflow", options.overflow, on_overflow::drop_lowest_priority);
  require_known("sync_remaining_with", options.sync_remaining_with, vendor_count::tokens);
  require_known("response_parsing.reset", options.response_parsing.reset,
                reset_unit::epoch_milliseconds);
}

void check_feedback_options(const limiter_options& options, bool counts_refused) {
  require_valid(!counts_refused,
                "cool_downs: count_refused must be false, because a check that a cool-down refuses "
                "is not counted");
  require_valid(options.max_cool_down >= std::chrono::milliseconds{1} &&
                    options.max_cool_down.count() <= policies::cool_down::longest,
                "cool_downs: max_cool_down must be between 1 ms and 31 days");
  // With zero, a vendor's 429 without a time would impose no cool-down.
  require_valid(options.default_cool_down.count() > 0,
                "cool_downs: default_cool_down must be above zero");
}

std::unique_ptr<deny_cache> make_deny_cache(const limiter_options& options, bool counts_refused) {
  if (options.deny_cache_subjects == 0) return nullptr;
  require_valid(!counts_refused,
                "deny cache: count_refused must be false, because each refusal counts");
  require_valid(options.deny_cache_subjects <= 10'000'000, "deny cache: at most 10^7 subjects");
  require_valid(options.deny_cache_duration >= std::chrono::milliseconds{1} &&
                    options.deny_cache_duration <= std::chrono::hours{1},
                "deny cache: deny_cache_duration must be between 1 ms and 1 h");
  return std::make_unique<deny_cache>(options.deny_cache_subjects, options.deny_cache_duration);
}

std::unique_ptr<local_units> make_local_units(const weir::tiers& rules,
                                              const limiter_options& options) {
  if (options.local_units == 0) return nullptr;
  require_valid(
      !options.cool_downs,
      "local units: cool_downs must be false, because local units would pass in a cool-down");
  require_valid(options.local_units_subjects >= 1 && options.local_units_subjects <= 1'000'000,
                "local units: local_units_subjects must be between 1 and 10^6");
  return std::make_unique<local_units>(supply_rules::of(rules, options.local_units),
                                       options.local_units_subjects);
}

std::unique_ptr<local_fallback> make_fallback(const weir::tiers& rules,
                                              const limiter_options& options) {
  if (options.on_failure != on_failure::fallback) return nullptr;
  require_valid(options.process_count >= 1,
                "fallback: set process_count to the number of processes, at least 1");
  require_valid(options.max_fallback_subjects >= 1,
                "fallback: max_fallback_subjects must be at least 1");
  return std::make_unique<local_fallback>(rules, options);
}

/// Checks the options that concern acquire().
waiting::line_rules waiting_rules_of(const limiter_options& options) {
  require_valid(options.max_waiting >= 1, "waiting: max_waiting must be at least 1");
  require_valid(options.priority_aging.count() >= 0,
                "waiting: priority_aging must not be negative");
  return {options.max_waiting, options.overflow, options.priority_aging};
}

std::unique_ptr<limiter_tally> make_tally(const limiter_spec& own, std::size_t most_refused) {
  require_valid(most_refused <= 10'000, "most_refused: at most 10,000 subjects");
  const std::size_t policies = own.tiers.size() - (own.has_cool_down ? 1 : 0);
  return std::make_unique<limiter_tally>(own.store->book(), policies, most_refused);
}

/// The random start of a gate's lease numbers, so that no two processes use one lease name.
std::int64_t random_base() { return static_cast<std::int64_t>(random_number() >> 2); }

policies::lease_set compile(const concurrency_options& options) {
  const auto require = [](const char* what, std::int64_t value, std::int64_t low,
                          std::int64_t high) {
    require_valid(value >= low && value <= high, "concurrency_limiter: " + std::string(what) +
                                                     " must be between " + std::to_string(low) +
                                                     " and " + std::to_string(high) + ", got " +
                                                     std::to_string(value));
  };
  using policies::lease_set;
  require("limit", options.limit, 1, lease_set::most);
  require("lease_duration (us)", options.lease_duration.count(), lease_set::shortest,
          lease_set::longest);
  return {options.limit, options.lease_duration.count(), random_base()};
}

}  // namespace

limiter_impl::limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
                           const weir::tiers& rules, const limiter_options& options)
    : limiter_spec(std::move(backend), name, rules, options),
      rules(rules.begin(), rules.end()),
      max_cool_down(options.max_cool_down.count()),
      default_cool_down(options.default_cool_down),
      response_parsing(options.response_parsing),
      sync_remaining_with(options.sync_remaining_with),
      fallback(make_fallback(rules, options)),
      met(options.cool_downs ? std::make_unique<met_cool_downs>() : nullptr),
      doubles_guesses(options.cool_downs && options.default_cool_down_doubles),
      denials(make_deny_cache(options, counts_refused)),
      local(make_local_units(rules, options)),
      room(std::make_unique<waiting::waiting_room>()),
      waiting_rules(waiting_rules_of(options)),
      on_event(options.on_event ? std::make_shared<const event_handler>(options.on_event)
                                : nullptr),
      tally(make_tally(*this, options.most_refused)) {
  check_enumerators(options);
  if (has_cool_down) check_feedback_options(options, counts_refused);
  require_valid(has_cool_down || sync_remaining_with == vendor_count::none,
                "sync_remaining_with: needs cool_downs");
}

limiter_impl::limiter_impl(std::shared_ptr<store_backend> backend, std::string_view name,
                           const concurrency_options& options)
    : limiter_spec(std::move(backend), name, {policies::kernel(compile(options))},
                   {.group = options.group, .subject_buckets = options.subject_buckets}),
      leases(std::make_unique<lease_keeper>(options.lease_duration)),
      tally(make_tally(*this, 0)) {}

void rethrow_with_name(const boost::system::system_error& e, std::string_view resource) {
  std::string text = e.what();
  // Boost has added this to the text.
  const std::string general = ": " + e.code().what();
  if (text.ends_with(general)) text.resize(text.size() - general.size());
  constexpr std::size_t longest = 400;
  throw boost::system::system_error(e.code(),
                                    "resource " + text::quoted(resource, longest) + ": " + text);
}

limiter_stats limiter_impl::stats() const {
  limiter_stats made;
  tally->read(made);
  if (room != nullptr) made.waiting = room->waiting();
  if (met != nullptr) made.cooling_down = met->running(std::chrono::steady_clock::now());
  if (leases != nullptr) made.leases_held = leases->held();
  return made;
}

void limiter_impl::report(event&& e, std::string_view subject) const noexcept try {
  if (on_event == nullptr && !store->has_event_handler()) return;
  e.resource = resource;
  e.subject = subject;
  store->report(std::move(e), on_event);
} catch (const std::bad_alloc&) {  // this event is lost
}

void limiter_impl::store_closes(const std::shared_ptr<const limiter_spec>& self,
                                const std::shared_ptr<void>& keep_alive) const {
  if (room != nullptr) room->close(keep_alive);
  if (leases != nullptr) leases->close();
  if (local != nullptr) local->close(self);
}

void limiter_impl::context_shut_down() const noexcept {
  if (room != nullptr) room->context_shut_down();
  if (leases != nullptr) leases->context_shut_down();
  if (local != nullptr) local->context_shut_down();
}

}  // namespace weir::detail
