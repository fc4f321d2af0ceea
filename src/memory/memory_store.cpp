#include "weir/memory_store.hpp"
#include "check/store_backend.hpp"

#include <atomic>
#include <boost/system/system_error.hpp>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/shutdown_service.hpp"
#include "check/apply.hpp"
#include "check/give_back.hpp"
#include "check/limiter_spec.hpp"
#include "memory/bounded_key.hpp"
#include "memory/shard.hpp"
#include "text/option_range.hpp"

namespace weir {
namespace {

class memory_store final : public detail::store_backend, public detail::shutdown_listener {
 public:
  memory_store(const boost::asio::any_io_executor& executor, memory_options&& options)
      : store_backend(executor, std::move(options.on_event)),
        clock_(std::move(options.clock)),
        all_(options.max_subjects, options.shards, options.max_settled) {}

  void start(detail::check& c) override {
    const phase now = phase_.load(std::memory_order_relaxed);
    c.flight.stage = detail::check_stage::done;
    if (now == phase::open || (now == phase::closed && c.traits.gives_back)) {
      try {
        answer(c);
      } catch (const std::bad_alloc&) {
        fail_without_memory(c);
      }
    } else if (now == phase::closed) {
      c.ec = error::store_closed;
    } else {
      return c.finish(detail::delivery::discard);
    }
    sink().complete(c);
  }

  // A started check is answered at once.
  void cancel(detail::check&, detail::cancel_scope) override {}

  void close() override {
    phase was = phase::open;
    if (!phase_.compare_exchange_strong(was, phase::closed, std::memory_order_relaxed)) return;
    tell_of_close(nullptr);
  }
  bool may_forget() const noexcept override { return false; }
  std::string_view key_prefix() const noexcept override { return {}; }

  void context_shut_down() noexcept override {
    phase_.store(phase::gone, std::memory_order_relaxed);
    tell_of_shutdown({});
  }

 private:
  enum class phase : std::uint8_t { open, closed, gone };  // gone: the context is destroyed

  /// For a check that found no memory. With one key, it has counted nothing. With several keys, it
  /// may have counted in some of them.
  static void fail_without_memory(detail::check& c) noexcept {
    c.answer = {};
    c.ec = detail::is_single(c) ? error::store_full : error::outcome_unknown;
  }

  /// Reads the clock when it is called, under a shard's lock.
  auto clock() const noexcept {
    return [this] { return detail::read_clock(clock_); };
  }

  void answer(detail::check& c) {
    // Thread-local buffers: no allocation in the steady state.
    thread_local std::string key;
    key.clear();
    c.limiter->append_key(key, c.subject.view());
    // The hash tag chooses the shard, as in a Redis Cluster: all keys of a joint check share one.
    const std::uint64_t hash = hash_(c.limiter->tag_of(key));
    memory::shard& home = all_.of(hash);
    if (is_record(c) && detail::is_single(c)) {
      memory::bound(key);
      c.ec = home.record(c.limiter->tiers.front(), key, clock(), c.units, c.answer);
    } else {
      answer_other(c, home);
    }
  }

  /// Any check but a plain record.
  [[gnu::noinline]] void answer_other(detail::check& c, memory::shard& home) {
    // The kernel that starts a cool-down; the limiter's own only reads it.
    const policies::kernel cool_down = detail::kernel_for(c, c.limiter->tiers.back());
    thread_local std::vector<memory::shard::tier_key> keys;
    std::size_t count = 0;
    detail::for_each_tier(c, [&](const detail::limiter_spec& limiter, std::string_view subject,
                                 std::int64_t number, std::size_t tier) {
      if (keys.size() == count) keys.emplace_back();
      memory::shard::tier_key& p = keys[count++];
      p.kernel = cools_down(c) ? &cool_down : &limiter.tiers[tier];
      p.key.clear();
      limiter.append_key(p.key, subject, tier);
      memory::bound(p.key);
      p.cost = number;
    });
    const std::span<const memory::shard::tier_key> asked(keys.data(), count);
    const auto apply = [&c](auto... with) { detail::apply(c, with...); };
    if (resets(c)) return home.reset(asked);
    // This store does all it is told at once: no give-back is repeated, so none needs a marker.
    const bool settles_decision = settles(c) && !lowers(c) && !c.traits.gives_back;
    if (c.traits.looks_only || (settles_decision && settlement_id_of(c) == 0)) {
      home.look_at(asked, clock(), apply);
    } else if (settles_decision) {
      const auto& request = detail::as<detail::settle_request>(c);
      c.ec = home.settle_all(asked, clock(),
                             {request.id, detail::marker_needed_until(request.about)}, apply);
    } else {
      c.ec = home.change_all(asked, clock(), apply);
    }
  }

  std::function<time_point()> clock_;
  const detail::key_hash hash_;
  memory::shard_set all_;
  std::atomic<phase> phase_{phase::open};
};

}  // namespace

store make_memory_store(const boost::asio::any_io_executor& executor, memory_options options) {
  const std::string fault = text::first_of({
      text::fault_of_number("max_subjects", options.max_subjects, 1, 1'000'000'000'000),
      text::fault_of_number("max_settled", options.max_settled, 1, 1'000'000'000),
      text::fault_of_number("shards", options.shards, 1, 65'536),
  });
  if (!fault.empty()) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "memory_options: " + fault);
  }
  auto made = std::make_shared<memory_store>(executor, std::move(options));
  detail::shutdown_service::add(executor, made);
  return store(std::move(made));
}

store make_memory_store(const boost::asio::any_io_executor& executor) {
  return make_memory_store(executor, memory_options{});
}

}  // namespace weir
