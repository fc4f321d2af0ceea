// Coroutines check as fast as they can, each awaiting its answer, over one connection to a Redis
// server, or to each master of a cluster. bench/harness runs it, and docs/benchmarks.md says how.
//
//   weir_load [--name=value...]
//
// prints one line of JSON. It fails if a check fails, or if one is refused without --may_refuse=1:
// a row must not measure something else than it says.
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/load_clock.h"
#include "weir/weir.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct options {
  std::string mode = "load";  // load; fill: every key once; once: one check of --subject; fetch
  std::string url;            // of a server or a cluster; else:
  std::string socket;
  std::int64_t port = 0;   // on loopback, if there is no socket
  std::string server_pid;  // or several, with commas between them
  std::string policy = "token_bucket";
  std::int64_t limit = 1'000'000;
  std::int64_t period_us = 1'000'000;  // of so many units, or of the window
  std::int64_t units = 1;
  std::int64_t per_day = 0;  // the limit of a second tier, a fixed_window; 0: there is none
  std::int64_t cool_downs = 0;
  std::int64_t keys = 100'000;  // 1: all callers check one key
  std::int64_t callers = 1;
  std::int64_t threads = 0;  // of a pool; 0: one thread runs an io_context
  std::int64_t spin_us = 0;  // the store's spin_time
  std::int64_t keys_per_call = 64;
  std::int64_t subject_buckets = 0;
  std::int64_t single_threaded = 0;
  std::int64_t cost = 1;
  std::int64_t acquires = 0;  // 1: the callers await acquire(), else record()
  std::int64_t may_refuse = 0;
  std::int64_t local_units = 0;
  std::int64_t offered = 0;  // checks per second of all callers; 0: as fast as they can
  double warm_up = 0.1;
  double seconds = 0.5;
  std::string subject = "000000000000";

  void read(int count, char** words);
};

void options::read(int count, char** words) {
  const std::map<std::string_view, std::string*> texts{
      {"mode", &mode},     {"url", &url},        {"socket", &socket}, {"server_pid", &server_pid},
      {"policy", &policy}, {"subject", &subject}};
  const std::map<std::string_view, std::int64_t*> numbers{{"port", &port},
                                                          {"subject_buckets", &subject_buckets},
                                                          {"limit", &limit},
                                                          {"period_us", &period_us},
                                                          {"units", &units},
                                                          {"per_day", &per_day},
                                                          {"cool_downs", &cool_downs},
                                                          {"keys", &keys},
                                                          {"callers", &callers},
                                                          {"threads", &threads},
                                                          {"spin_us", &spin_us},
                                                          {"cost", &cost},
                                                          {"acquires", &acquires},
                                                          {"may_refuse", &may_refuse},
                                                          {"local_units", &local_units},
                                                          {"offered", &offered},
                                                          {"keys_per_call", &keys_per_call},
                                                          {"single_threaded", &single_threaded}};
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(std::min<std::size_t>(2, equals), equals - 2);
    const std::string value(word.substr(std::min(equals + 1, word.size())));
    if (const auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
    } else if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second = std::stoll(value);
    } else if (name == "warm_up" || name == "seconds") {
      (name == "seconds" ? seconds : warm_up) = std::stod(value);
    } else {
      throw std::invalid_argument("no such option: " + std::string(word));
    }
  }
}

weir::policy policy_of(const options& o) {
  const std::chrono::microseconds period(o.period_us);
  const weir::rate rate{o.units, period};
  if (o.policy == "token_bucket") return weir::token_bucket{.capacity = o.limit, .refill = rate};
  if (o.policy == "gcra") return weir::gcra{.rate = rate, .burst = o.limit};
  if (o.policy == "leaky_bucket") return weir::leaky_bucket{.capacity = o.limit, .leak = rate};
  if (o.policy == "fixed_window") return weir::fixed_window{.limit = o.limit, .window = period};
  if (o.policy == "sliding_window") return weir::sliding_window{.limit = o.limit, .window = period};
  if (o.policy == "sliding_log") return weir::sliding_log{.limit = o.limit, .window = period};
  throw std::invalid_argument("no such policy: " + o.policy);
}

weir::tiers tiers_of(const options& o) {
  if (o.per_day == 0) return weir::tiers(policy_of(o));
  return weir::tiers(policy_of(o), weir::fixed_window{o.per_day, std::chrono::hours(24)});
}

/// 12 digits, as redis-benchmark writes them.
class subject_text {
 public:
  explicit subject_text(std::uint64_t number) noexcept {
    text_.fill('0');
    for (char* p = text_.data() + text_.size(); number != 0; number /= 10) {
      *--p = static_cast<char>('0' + number % 10);
    }
  }
  std::string_view view() const noexcept { return {text_.data(), text_.size()}; }

 private:
  std::array<char, 12> text_;
};

/// The threads that run the callers.
class workers {
 public:
  explicit workers(const options& o) {
    if (o.threads > 0) {
      pool_.emplace(static_cast<std::size_t>(o.threads));
    } else {
      context_.emplace(1);
    }
  }
  asio::any_io_executor get_executor() {
    if (pool_) return pool_->get_executor();
    return context_->get_executor();
  }
  void start() {
    if (!context_) return;
    thread_ = std::thread([this] { context_->run(); });
  }
  /// Returns when no work is left.
  void join() { pool_ ? pool_->join() : thread_.join(); }

 private:
  std::optional<asio::thread_pool> pool_;
  std::optional<asio::io_context> context_;
  std::thread thread_;
};

class load {
 public:
  explicit load(const options& o)
      : options_(o),
        store_(weir::make_redis_store(workers_.get_executor(), store_options(o))),
        limiter_(store_, "bench", tiers_of(o),
                 {.subject_buckets = static_cast<std::size_t>(o.subject_buckets),
                  .cool_downs = o.cool_downs != 0,
                  .local_units = o.local_units}) {
    std::istringstream pids(o.server_pid);
    for (std::string pid; std::getline(pids, pid, ',');) servers_.push_back(std::stoi(pid));
  }

  void run() {
    for (std::int64_t i = 0; i < options_.callers; ++i) start(caller(i));
    workers_.start();
    pass(options_.warm_up);
    const load_snapshot begin = snapshot();
    measuring_ = true;
    pass(options_.seconds);
    measuring_ = false;
    const load_snapshot end = snapshot();
    over_ = true;
    finish();

    static latency_histogram latencies;
    for (const worker& w : workers_seen_) latency_join(&latencies, &w.latencies);
    const std::uint64_t refused = total(&worker::refused);
    if (refused != 0 && options_.may_refuse == 0) {
      throw std::runtime_error(std::to_string(refused) + " checks were refused");
    }
    print_load(&begin, &end, &latencies, refused, total(&worker::checks));
  }

  void fill() {
    for (std::int64_t i = 0; i < std::min(options_.callers, options_.keys); ++i) start(filler());
    workers_.start();
    finish();
  }

  /// One check, or one look.
  void once(bool looks) {
    start(single(looks));
    workers_.start();
    finish();
  }

 private:
  /// What one thread has seen.
  struct worker {
    std::atomic<std::uint64_t> checks{0};
    std::atomic<std::uint64_t> refused{0};
    latency_histogram latencies{};
  };

  static weir::redis_options store_options(const options& o) {
    weir::redis_options r;
    if (!o.url.empty()) {
      r = weir::parse_redis_url(o.url);
    } else if (!o.socket.empty()) {
      r.unix_path = o.socket;
    } else {
      r.port = static_cast<std::uint16_t>(o.port);
    }
    r.max_keys_per_call = static_cast<std::size_t>(o.keys_per_call);
    r.spin_time = std::chrono::microseconds(o.spin_us);
    r.single_threaded = o.single_threaded != 0;
    r.max_pending = 1'000'000;
    // A stall shows in the latencies, not as an error.
    r.timeout = std::chrono::seconds{20};
    r.silence_timeout = std::chrono::seconds{20};
    return r;
  }

  /// Lets so much time pass, and more until there were as many checks as there are callers.
  void pass(double seconds) {
    const auto enough = total(&worker::checks) + static_cast<std::uint64_t>(options_.callers);
    do {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    } while (total(&worker::checks) < enough && !over_);
  }

  load_snapshot snapshot() {
    load_snapshot s = take_snapshot(total(&worker::checks), 0);
    for (const pid_t server : servers_) s.server_cpu += cpu_seconds_of(server);
    return s;
  }

  std::uint64_t total(std::atomic<std::uint64_t> worker::*member) {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const worker& w : workers_seen_) sum += (w.*member).load(std::memory_order_relaxed);
    return sum;
  }

  worker& this_worker() {
    thread_local worker* mine = nullptr;
    if (mine == nullptr) {
      const std::lock_guard lock(mutex_);
      mine = &workers_seen_.emplace_back();
    }
    return *mine;
  }

  /// Only this thread writes its counts.
  static void count(std::atomic<std::uint64_t>& n) {
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void start(asio::awaitable<void>&& work) {
    ++running_;
    asio::co_spawn(workers_.get_executor(), std::move(work), [this](std::exception_ptr e) {
      if (e) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = e;
        over_ = true;
      }
      if (--running_ == 0) store_.close();
    });
  }

  void finish() {
    workers_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  /// Looks at the clock for one check in `stride`: two looks cost as much as a third of a check.
  asio::awaitable<void> caller(std::int64_t index) {
    const std::int64_t stride = options_.callers <= 64 ? 1 : 16;
    const auto keys = static_cast<std::uint32_t>(options_.keys);
    // Each run has keys of its own: the same ones in every round would fill their logs.
    auto random = static_cast<std::uint32_t>(std::random_device{}()) | 1U;
    asio::steady_timer pause(workers_.get_executor());
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = index; !over_.load(std::memory_order_relaxed); ++i) {
      if (options_.offered > 0) co_await keep_pace(pause, begin, i - index);
      random ^= random << 13;
      random ^= random >> 17;
      random ^= random << 5;
      const subject_text subject(random % keys);
      const bool timed = i % stride == 0;
      const std::uint64_t before = timed ? now_ns() : 0;
      const weir::decision d = options_.acquires != 0
                                   ? co_await limiter_.acquire(
                                         subject.view(), {.cost = options_.cost, .max_wait = 10s})
                                   : co_await limiter_.record(subject.view(),
                                                              {.cost = options_.cost});
      worker& w = this_worker();
      if (timed && measuring_.load(std::memory_order_relaxed)) {
        latency_add(&w.latencies, now_ns() - before);
      }
      count(w.checks);
      if (!d.allowed) count(w.refused);
    }
  }

  /// Sleeps if the caller is a millisecond ahead of its share of `offered`.
  asio::awaitable<void> keep_pace(asio::steady_timer& pause,
                                  std::chrono::steady_clock::time_point begin, std::int64_t done) {
    const double share = static_cast<double>(options_.offered) /
                         static_cast<double>(options_.callers);
    const auto due = begin + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                 static_cast<double>(done) / share * 1e9));
    if (due < std::chrono::steady_clock::now() + std::chrono::milliseconds{1}) co_return;
    pause.expires_at(due);
    co_await pause.async_wait(asio::use_awaitable);
  }

  asio::awaitable<void> filler() {
    for (std::int64_t i = filled_++; i < options_.keys; i = filled_++) {
      const subject_text subject(static_cast<std::uint64_t>(i));
      co_await limiter_.record(subject.view(), {.cost = options_.cost});
    }
  }

  asio::awaitable<void> single(bool looks) {
    weir::decision d;
    if (looks) {
      d = co_await limiter_.fetch(options_.subject);
    } else {
      d = co_await limiter_.record(options_.subject, {.cost = options_.cost});
    }
    std::printf("{\"allowed\": %d, \"used\": %lld}\n", d.allowed ? 1 : 0,
                static_cast<long long>(d.used));
  }

  const options options_;
  workers workers_{options_};
  weir::store store_;
  weir::limiter limiter_;

  std::vector<pid_t> servers_;
  std::atomic<std::int64_t> running_{0};
  std::atomic<std::int64_t> filled_{0};
  std::atomic<bool> measuring_{false};
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::deque<worker> workers_seen_;
};

}  // namespace

int main(int count, char** words) {
  try {
    options o;
    o.read(count, words);
    load work(o);
    if (o.mode == "load") {
      work.run();
    } else if (o.mode == "fill") {
      work.fill();
    } else {
      work.once(o.mode == "fetch");
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir_load: %s\n", e.what());
    return 1;
  }
}
