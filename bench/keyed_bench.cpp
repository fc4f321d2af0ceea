// One check of one of many keys in this process, beside a bare map. Names: HOW/N, N random keys of
// 14 or 36 characters
//
//   bare          GCRA in a boost::unordered_flat_map<std::string, ...> behind a mutex
//   keyed         local_keyed_limiter::allowed(), a bucket in one word
//   keyed_coarse  the same with the coarse clock; bare_coarse as well
//   keyed_record  local_keyed_limiter::record()
//   .../threads:T from T threads at once; the time is per check and thread
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weir/local_keyed_limiter.hpp"

namespace {

using std::chrono::microseconds;

constexpr std::int64_t unit = 1, burst = std::int64_t{1} << 40;

std::int64_t now(weir::local_clock clock) {
  if (clock == weir::local_clock::coarse) {
    timespec t{};
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
  }
  return std::chrono::duration_cast<microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// What local_keyed_limiter is measured against. It never forgets a key.
class bare_map {
 public:
  bool allowed(const std::string& key, weir::local_clock clock) {
    const std::lock_guard lock(mutex_);
    const std::int64_t at = now(clock);
    std::int64_t& tat = tats_[key];
    const std::int64_t next = std::max(tat, at) + unit;
    if (next - at > burst) return false;
    tat = next;
    return true;
  }

 private:
  std::mutex mutex_;
  boost::unordered_flat_map<std::string, std::int64_t> tats_;
};

/// All keys, in the order in which they are made, and a random order in which to ask for them.
struct key_set {
  std::vector<std::string> names;

  key_set(std::size_t count, std::size_t size) {
    std::uint64_t random = 0x9e3779b97f4a7c15u;
    for (std::size_t i = 0; i < count; ++i) {
      std::string name;
      while (name.size() < size) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        name += static_cast<char>('a' + random % 26);
      }
      names.push_back(std::move(name));
    }
  }
};

constexpr std::size_t short_key = 14, long_key = 36;

const key_set& keys_of(std::size_t count, std::size_t size) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<key_set>> all;
  const std::lock_guard lock(mutex);
  for (const auto& one : all) {
    if (one->names.size() == count && one->names.front().size() == size) return *one;
  }
  all.push_back(std::make_unique<key_set>(count, size));
  return *all.back();
}

/// A map or limiter that knows all its keys. It is kept for the next repetition.
template <class Map, weir::local_clock clock>
Map& filled(const key_set& keys) {
  static std::mutex mutex;
  static std::map<const key_set*, std::unique_ptr<Map>> all;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Map>& one = all[&keys];
  if (one == nullptr) {
    one = std::make_unique<Map>();
    for (const std::string& key : keys.names) (void)one->allowed(key, clock);
  }
  return *one;
}

template <weir::local_clock limiter_clock>
struct keyed {
  weir::local_keyed_limiter<weir::gcra> limiter{
      weir::gcra{.rate = {burst, microseconds(burst)}, .burst = burst},
      {.max_keys = 4'000'000},
      limiter_clock};
  bool allowed(const std::string& key, weir::local_clock) { return limiter.allowed(key); }
};
struct keyed_record : keyed<weir::local_clock::precise> {
  bool allowed(const std::string& key, weir::local_clock) { return limiter.record(key).allowed; }
};

template <class Map, weir::local_clock clock, std::size_t key_size = short_key>
void check(benchmark::State& state) {
  const key_set& keys = keys_of(static_cast<std::size_t>(state.range(0)), key_size);
  Map& map = filled<Map, clock>(keys);
  std::int64_t admitted = 0;
  std::uint64_t random = 2463534242 + static_cast<std::uint64_t>(state.thread_index()) * 7919;
  const std::size_t count = keys.names.size();
  for (auto _ : state) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const auto at = static_cast<std::size_t>((random >> 32) * count >> 32);
    admitted += map.allowed(keys.names[at], clock) ? 1 : 0;
  }
  if (admitted != state.iterations()) state.SkipWithError("some were refused");
}

constexpr auto precise = weir::local_clock::precise, coarse = weir::local_clock::coarse;

BENCHMARK_TEMPLATE(check, bare_map, precise)->Name("bare")->Arg(1000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, keyed<precise>, precise)->Name("keyed")->Arg(1000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, keyed_record, precise)->Name("keyed_record")->Arg(1000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, bare_map, coarse)->Name("bare_coarse")->Arg(1000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, keyed<coarse>, coarse)->Name("keyed_coarse")->Arg(1000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, bare_map, precise, long_key)
    ->Name("bare_long")
    ->Arg(1000)
    ->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, keyed<precise>, precise, long_key)
    ->Name("keyed_long")
    ->Arg(1000)
    ->Arg(1'000'000);
BENCHMARK_TEMPLATE(check, bare_map, precise)
    ->Name("bare")
    ->Arg(1'000'000)
    ->Threads(2)
    ->Threads(4)
    ->UseRealTime();
BENCHMARK_TEMPLATE(check, keyed<precise>, precise)
    ->Name("keyed")
    ->Arg(1'000'000)
    ->Threads(2)
    ->Threads(4)
    ->UseRealTime();

}  // namespace
