// One check in this process, per policy. Names: HOW/POLICY
//
//   kernel_admitted, kernel_refused   the pure state machine, with the time given
//   local_admitted, local_refused     local_limiter::allowed(), with the system's clock
//   bare/gcra                         a compare-and-swap loop and the system's clock
//   local_word, local_word_coarse     local_limiter::allowed() of a state in one atomic word
//   memory:N                          co_await limiter.record(subject), N random subjects in the
//                                     memory store
//   bare_memory:N                     co_await asio::post(), and GCRA in a flat map behind a mutex
#include <benchmark/benchmark.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "policy/kernel.hpp"
#include "support/allocations.hpp"
#include "weir/weir.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::microseconds;

void count_allocations(benchmark::State& state, std::uint64_t before) {
  state.counters["allocs"] = benchmark::Counter(static_cast<double>(bench::allocations() - before),
                                                benchmark::Counter::kAvgIterations);
}

/// `limit` units in `window`; for the buckets, refilled in that time.
template <class Policy>
Policy make_policy(std::int64_t limit, microseconds window) {
  if constexpr (std::is_same_v<Policy, weir::token_bucket>) {
    return {.capacity = limit, .refill = {limit, window}};
  } else if constexpr (std::is_same_v<Policy, weir::gcra>) {
    return {.rate = {limit, window}, .burst = limit};
  } else if constexpr (std::is_same_v<Policy, weir::leaky_bucket>) {
    return {.capacity = limit, .leak = {limit, window}};
  } else {
    return {.limit = limit, .window = window};
  }
}

// ---- the kernel alone

constexpr weir::policies::instant begin_of_time = 1'700'000'000'000'000;

/// `step` microseconds pass between two checks. Half of what the policy allows: everything passes,
/// and a log holds 1,000 entries.
template <class Policy>
void kernel_admitted(benchmark::State& state) {
  const auto kernel = weir::policies::compile(make_policy<Policy>(2000, 10ms));
  std::visit(
      [&](const auto& k) {
        typename std::decay_t<decltype(k)>::state s;
        auto now = begin_of_time;
        for (int i = 0; i < 4000; ++i) k.record(s, now += 10, 1);
        std::int64_t admitted = 0;
        const auto allocations = bench::allocations();
        for (auto _ : state) {
          weir::decision d = k.record(s, now += 10, 1);
          benchmark::DoNotOptimize(d);
          admitted += d.allowed ? 1 : 0;
        }
        count_allocations(state, allocations);
        if (admitted != state.iterations()) state.SkipWithError("some were refused");
      },
      kernel);
}

template <class Policy>
void kernel_refused(benchmark::State& state) {
  const auto kernel = weir::policies::compile(make_policy<Policy>(1000, 10ms));
  std::visit(
      [&](const auto& k) {
        typename std::decay_t<decltype(k)>::state s;
        // Spread out: a log holds 1,000 entries here too. The last ones fill what has drained
        // meanwhile.
        auto now = begin_of_time;
        for (int i = 0; i < 1000; ++i) k.record(s, now += 1, 1);
        while (k.record(s, now, 1).allowed) continue;
        std::int64_t admitted = 0;
        const auto allocations = bench::allocations();
        for (auto _ : state) {
          weir::decision d = k.record(s, now, 1);
          benchmark::DoNotOptimize(d);
          admitted += d.allowed ? 1 : 0;
        }
        count_allocations(state, allocations);
        if (admitted != 0) state.SkipWithError("some were admitted");
      },
      kernel);
}

// ---- local_limiter

void system_clock_alone(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(std::chrono::system_clock::now());
}
BENCHMARK(system_clock_alone)->Name("clock/system_clock");

/// What local_limiter is measured against: GCRA in one word, with the same clock.
void bare_gcra(benchmark::State& state) {
  constexpr std::int64_t unit = 1, burst = std::int64_t{1} << 40;
  std::atomic<std::int64_t> tat{0};
  benchmark::DoNotOptimize(tat);
  std::int64_t admitted = 0;
  for (auto _ : state) {
    const std::int64_t now = std::chrono::duration_cast<microseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
    std::int64_t seen = tat.load(std::memory_order_relaxed);
    while (true) {
      const std::int64_t next = std::max(seen, now) + unit;
      if (next - now > burst) break;
      if (tat.compare_exchange_weak(seen, next, std::memory_order_relaxed)) {
        ++admitted;
        break;
      }
    }
  }
  if (admitted != state.iterations()) state.SkipWithError("wrong answers");
}
BENCHMARK(bare_gcra)->Name("bare/gcra");

/// Policies whose state is one word, and which let everything pass.
template <class Policy, weir::local_clock clock>
void local_word(benchmark::State& state) {
  static constexpr std::int64_t many = std::int64_t{1} << 40;
  weir::local_limiter<Policy> limiter(
      [] {
        if constexpr (std::is_same_v<Policy, weir::fixed_window>) {
          return Policy{.limit = many, .window = 24h, .anchor = weir::anchor::epoch};
        } else {
          return make_policy<Policy>(many, microseconds(many));
        }
      }(),
      clock);
  std::int64_t admitted = 0;
  for (auto _ : state) admitted += limiter.allowed() ? 1 : 0;
  if (admitted != state.iterations()) state.SkipWithError("wrong answers");
}
#define WEIR_BENCH_WORD(policy)                                            \
  BENCHMARK_TEMPLATE(local_word, weir::policy, weir::local_clock::precise) \
      ->Name("local_word/" #policy);                                       \
  BENCHMARK_TEMPLATE(local_word, weir::policy, weir::local_clock::coarse)  \
      ->Name("local_word_coarse/" #policy)
WEIR_BENCH_WORD(token_bucket);
WEIR_BENCH_WORD(gcra);
WEIR_BENCH_WORD(fixed_window);

template <class Policy>
void local(benchmark::State& state, bool admitting) {
  // A log of 1 ms: it holds what came in the last 1,000 microseconds, one entry for each.
  weir::local_limiter<Policy> limiter(admitting ? make_policy<Policy>(1'000'000, 1ms)
                                                : make_policy<Policy>(1, 24h));
  if (!admitting) (void)limiter.allowed();
  std::int64_t admitted = 0;
  const auto allocations = bench::allocations();
  for (auto _ : state) admitted += limiter.allowed() ? 1 : 0;
  count_allocations(state, allocations);
  if (admitted != (admitting ? state.iterations() : 0)) state.SkipWithError("wrong answers");
}
template <class Policy>
void local_admitted(benchmark::State& state) {
  local<Policy>(state, true);
}
template <class Policy>
void local_refused(benchmark::State& state) {
  local<Policy>(state, false);
}

// ---- the memory store, awaited

class subject_text {
 public:
  explicit subject_text(std::uint32_t number) noexcept
      : size_(static_cast<std::size_t>(std::to_chars(text_, text_ + sizeof text_, number).ptr -
                                       text_)) {}
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[12];
  std::size_t size_;
};

template <class Policy>
Policy lasting_policy(std::uint32_t subjects) {
  if constexpr (std::is_same_v<Policy, weir::sliding_log>) {
    // As long as keeps each log at some hundred entries.
    return {.limit = 1'000'000,
            .window = subjects == 1      ? microseconds(1ms)
                      : subjects == 1000 ? microseconds(100ms)
                                         : microseconds(1h)};
  } else {
    return make_policy<Policy>(864'000'000, 24h);  // a unit takes 100 us: a plain state
  }
}

/// A store that knows all its subjects already. Filling a large one takes longer than measuring,
/// and Google Benchmark calls a benchmark several times: it is kept until another is asked for.
struct filled_store {
  asio::io_context context{1};
  weir::store store;
  weir::limiter limiter;

  filled_store(const weir::policy& policy, std::uint32_t subjects)
      : store(weir::make_memory_store(context.get_executor(), roomy())),
        limiter(store, "bench", policy) {
    run([&]() -> asio::awaitable<void> {
      for (std::uint32_t i = 0; i < subjects; ++i) {
        const subject_text subject(i);
        // Enough units for a bucket's state to matter until the end.
        co_await limiter.record(subject.view(), {.cost = subjects == 1 ? 1 : 500'000});
      }
    });
  }

  template <class F>
  void run(F f) {
    std::exception_ptr failure;
    context.restart();
    asio::co_spawn(context, f(), [&](std::exception_ptr e) { failure = e; });
    context.run();
    if (failure) std::rethrow_exception(failure);
  }

  template <class Policy>
  static filled_store& get(std::uint32_t subjects) {
    static std::unique_ptr<filled_store>& kept = any();
    static std::uint32_t kept_subjects = 0;
    static const filled_store* ours = nullptr;
    if (kept == nullptr || ours != kept.get() || kept_subjects != subjects) {
      kept.reset();
      kept = std::make_unique<filled_store>(lasting_policy<Policy>(subjects), subjects);
      kept_subjects = subjects;
      ours = kept.get();
    }
    return *kept;
  }

 private:
  static weir::memory_options roomy() {
    weir::memory_options o;
    o.max_subjects = 4'000'000;  // shards do not fill evenly
    return o;
  }

  static std::unique_ptr<filled_store>& any() {
    static std::unique_ptr<filled_store> one;
    return one;
  }
};

template <class Policy>
void memory(benchmark::State& state) {
  const auto subjects = static_cast<std::uint32_t>(state.range(0));
  filled_store& filled = filled_store::get<Policy>(subjects);
  std::int64_t admitted = 0;
  filled.run([&]() -> asio::awaitable<void> {
    std::uint32_t random = 2463534242;
    const auto allocations = bench::allocations();
    for (auto _ : state) {
      random ^= random << 13;
      random ^= random >> 17;
      random ^= random << 5;
      const subject_text subject(random % subjects);
      const weir::decision d = co_await filled.limiter.record(subject.view());
      admitted += d.allowed ? 1 : 0;
    }
    count_allocations(state, allocations);
  });
  if (admitted != state.iterations()) state.SkipWithError("some were refused");
}

/// What the memory store is measured against: the same loop, with nothing but one post() and a map.
void bare_memory(benchmark::State& state) {
  const auto subjects = static_cast<std::uint32_t>(state.range(0));
  constexpr std::int64_t unit = 1, burst = std::int64_t{1} << 40;
  std::mutex mutex;
  boost::unordered_flat_map<std::string, std::int64_t> tats;
  for (std::uint32_t i = 0; i < subjects; ++i) tats[std::string(subject_text(i).view())] = 0;
  asio::io_context context{1};
  std::int64_t admitted = 0;
  const auto loop = [&]() -> asio::awaitable<void> {
    const asio::any_io_executor executor = context.get_executor();
    std::uint32_t random = 2463534242;
    std::string subject;
    for (auto _ : state) {
      random ^= random << 13;
      random ^= random >> 17;
      random ^= random << 5;
      subject = subject_text(random % subjects).view();
      bool allowed = false;
      {
        const std::lock_guard lock(mutex);
        const std::int64_t now = std::chrono::duration_cast<microseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count();
        std::int64_t& tat = tats[subject];
        const std::int64_t next = std::max(tat, now) + unit;
        allowed = next - now <= burst;
        if (allowed) tat = next;
      }
      co_await asio::post(executor, asio::deferred);
      admitted += allowed ? 1 : 0;
    }
  };
  asio::co_spawn(context, loop(), asio::detached);
  context.run();
  if (admitted != state.iterations()) state.SkipWithError("some were refused");
}
BENCHMARK(bare_memory)->Name("bare_memory/gcra")->Arg(1)->Arg(1000)->Arg(1'000'000);

#define WEIR_BENCH_POLICY(policy)                                                      \
  BENCHMARK_TEMPLATE(kernel_admitted, weir::policy)->Name("kernel_admitted/" #policy); \
  BENCHMARK_TEMPLATE(kernel_refused, weir::policy)->Name("kernel_refused/" #policy);   \
  BENCHMARK_TEMPLATE(local_admitted, weir::policy)->Name("local_admitted/" #policy);   \
  BENCHMARK_TEMPLATE(local_refused, weir::policy)->Name("local_refused/" #policy);     \
  BENCHMARK_TEMPLATE(memory, weir::policy)                                             \
      ->Name("memory/" #policy)                                                        \
      ->Arg(1)                                                                         \
      ->Arg(1000)                                                                      \
      ->Arg(1'000'000)

WEIR_BENCH_POLICY(token_bucket);
WEIR_BENCH_POLICY(gcra);
WEIR_BENCH_POLICY(leaky_bucket);
WEIR_BENCH_POLICY(fixed_window);
WEIR_BENCH_POLICY(sliding_window);
WEIR_BENCH_POLICY(sliding_log);

}  // namespace
