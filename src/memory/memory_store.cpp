#include "weir/memory_store.hpp"

#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clock.hpp"
#include "failure_policy.hpp"
#include "limiter_core.hpp"
#include "memory/shard.hpp"

namespace weir {
namespace {

class memory_store final : public detail::store_backend {
 public:
  memory_store(const boost::asio::any_io_executor& executor, memory_options&& options)
      : executor_(executor), clock_(std::move(options.clock)) {
    // Small stores get fewer shards, so that the bound holds in each of them without waste.
    constexpr std::size_t smallest_shard = 1024;
    const std::size_t subjects = std::max<std::size_t>(1, options.max_subjects);
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(1, options.shards));
    const std::size_t count = std::min(
        wanted, std::bit_floor(std::max<std::size_t>(1, subjects / smallest_shard)));
    for (std::size_t i = 0; i < count; ++i) {
      shards_.push_back(std::make_unique<memory::shard>((subjects + count - 1) / count));
    }
  }

  void start(detail::check& c) override {
    if (closed_.load(std::memory_order_relaxed)) {
      c.ec = error::store_closed;
    } else {
      // The key is built in a buffer that the thread keeps: no allocation in the steady state.
      thread_local std::string key;
      key.clear();
      c.limiter->append_key(key, c.subject.view());
      // The map places by the highest bits and compares the lowest; the shard takes some from the middle.
      const std::size_t hash = memory::subject_hash{}(key);
      memory::shard& home = *shards_[(hash >> 40) & (shards_.size() - 1)];
      const policies::instant now = detail::read_clock(clock_);
      switch (c.kind) {
        case detail::check_kind::record:
          c.ec = home.record(c.limiter->kernel, key, now, c.cost, c.answer);
          break;
        case detail::check_kind::fetch:
          c.answer = home.fetch(c.limiter->kernel, key, now, c.cost);
          break;
        case detail::check_kind::reset:
          home.reset(key);
          break;
      }
    }
    detail::apply_failure_policy(c);
    c.stage = detail::check_stage::done;
    c.finish(detail::delivery::post);
  }

  // Every check is done as soon as it has started.
  void cancel(detail::check&, detail::cancel_scope) override {}

  void close() override { closed_.store(true, std::memory_order_relaxed); }
  boost::asio::any_io_executor get_executor() const noexcept override { return executor_; }
  std::string_view key_prefix() const noexcept override { return "weir"; }

 private:
  boost::asio::any_io_executor executor_;
  std::function<time_point()> clock_;
  std::vector<std::unique_ptr<memory::shard>> shards_;
  std::atomic<bool> closed_{false};
};

}  // namespace

store make_memory_store(const boost::asio::any_io_executor& executor, memory_options options) {
  return store(std::make_shared<memory_store>(executor, std::move(options)));
}

}  // namespace weir
