#include "weir/memory_store.hpp"

#include <atomic>
#include <bit>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "clock.hpp"
#include "limiter_core.hpp"

namespace weir {
namespace {

using policies::instant;

struct subject_hash {
  using is_transparent = void;
  using is_avalanching = void;  // std::hash of the standard library mixes all bits
  std::size_t operator()(std::string_view key) const noexcept {
    return std::hash<std::string_view>{}(key);
  }
};

/// One part of the subjects, with its own lock.
class shard {
 public:
  explicit shard(std::size_t max_subjects) : max_(max_subjects) {}

  void run(detail::check& c, const std::string& key, instant now) {
    const std::lock_guard lock(mutex_);
    if (c.kind == detail::check_kind::reset) {
      subjects_.erase(key);
      return;
    }
    std::visit([&](const auto& kernel) { answer(c, kernel, key, now); }, c.limiter->kernel);
    if (++checks_since_sweep_ > subjects_.size() + 64) sweep(now);
  }

 private:
  struct subject {
    policies::any_state state;
    instant matters_until = 0;
  };

  template <class Kernel>
  void answer(detail::check& c, const Kernel& kernel, const std::string& key, instant now) {
    using state_type = typename Kernel::state;
    auto found = subjects_.find(key);
    if (c.kind == detail::check_kind::fetch) {
      const state_type* s =
          found == subjects_.end() ? nullptr : std::get_if<state_type>(&found->second.state);
      c.answer = kernel.fetch(s != nullptr ? *s : state_type{}, now, c.cost);
      return;
    }
    if (found == subjects_.end()) {
      if (subjects_.size() >= max_ && !make_room(now)) {
        c.ec = error::store_full;
        return;
      }
      found = subjects_.try_emplace(key).first;
    }
    subject& entry = found->second;
    auto* s = std::get_if<state_type>(&entry.state);
    if (s == nullptr) s = &entry.state.template emplace<state_type>();
    c.answer = kernel.record(*s, now, c.cost);
    entry.matters_until = kernel.matters_until(*s);
  }

  /// A sweep looks at every subject, so a full shard allows itself one a millisecond.
  bool make_room(instant now) {
    if (now >= last_sweep_ && now - last_sweep_ < 1000) return false;
    sweep(now);
    return subjects_.size() < max_;
  }

  /// Drops what no longer matters. After as many checks as there are subjects, it costs each check a constant.
  void sweep(instant now) {
    boost::unordered::erase_if(subjects_,
                               [&](const auto& s) { return s.second.matters_until <= now; });
    if (subjects_.size() < subjects_.bucket_count() / 8) subjects_.rehash(0);
    checks_since_sweep_ = 0;
    last_sweep_ = now;
  }

  std::mutex mutex_;
  boost::unordered_flat_map<std::string, subject, subject_hash, std::equal_to<>> subjects_;
  const std::size_t max_;
  std::size_t checks_since_sweep_ = 0;
  instant last_sweep_ = -1000;
};

class memory_store final : public detail::store_backend {
 public:
  memory_store(const boost::asio::any_io_executor& executor, memory_options&& options)
      : executor_(executor), clock_(std::move(options.clock)) {
    // Small stores get fewer shards, so that the bound holds in each of them without waste.
    constexpr std::size_t smallest_shard = 1024;
    const std::size_t subjects = std::max<std::size_t>(1, options.max_subjects);
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(1, options.shards));
    const std::size_t count =
        std::min(wanted, std::bit_floor(std::max<std::size_t>(1, subjects / smallest_shard)));
    for (std::size_t i = 0; i < count; ++i) {
      shards_.push_back(std::make_unique<shard>((subjects + count - 1) / count));
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
      const std::size_t hash = subject_hash{}(key);
      // The map places by the highest bits and compares the lowest; the shard takes some from the middle.
      shards_[(hash >> 40) & (shards_.size() - 1)]->run(c, key, detail::read_clock(clock_));
    }
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
  std::vector<std::unique_ptr<shard>> shards_;
  std::atomic<bool> closed_{false};
};

}  // namespace

store make_memory_store(const boost::asio::any_io_executor& executor, memory_options options) {
  return store(std::make_shared<memory_store>(executor, std::move(options)));
}

}  // namespace weir
