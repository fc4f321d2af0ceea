#include "support/load.hpp"
#include "limiter/limiter_impl.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "redis/coalescer.hpp"
#include "redis/script_call.hpp"
#include "support/allocations.hpp"
#include "weir/weir.hpp"

namespace bench {
namespace {

namespace asio = boost::asio;
using steady = std::chrono::steady_clock;

/// 12 digits, as redis-benchmark writes them.
class subject_text {
 public:
  explicit subject_text(std::uint32_t number) noexcept {
    text_.fill('0');
    for (char* p = text_.data() + text_.size(); number != 0; number /= 10) {
      *--p = static_cast<char>('0' + number % 10);
    }
  }
  std::string_view view() const noexcept { return {text_.data(), text_.size()}; }

 private:
  std::array<char, 12> text_;
};

weir::redis_options store_options(const redis_server& server, const load_options& load) {
  weir::redis_options o;
  o.unix_path = server.socket_path();
  o.max_keys_per_call = load.max_keys_per_call;
  o.single_threaded = load.single_threaded;
  o.timeout = std::chrono::seconds{10};  // a stall shows in p99, not as an error
  return o;
}

/// The callers of one row and what they saw.
class load {
 public:
  load(const redis_server& server, const workload& work, const load_options& options)
      : server_(server),
        options_(options),
        hot_(work.traffic == traffic::hot),
        store_(weir::make_redis_store(context_.get_executor(), store_options(server, options))),
        limiter_(store_, work.name, work.policy) {
    latencies_.reserve(1 << 20);
  }

  load_result measure() {
    for (std::size_t i = 0; i < options_.callers; ++i) start(caller(i));
    start(observer());
    finish();
    load_result r;
    r.seconds = std::chrono::duration<double>(end_.time - begin_.time).count();
    r.checks = static_cast<double>(end_.checks - begin_.checks);
    r.client_cpu_seconds = end_.client_cpu - begin_.client_cpu;
    r.server_cpu_seconds = end_.server_cpu - begin_.server_cpu;
    r.allocations = static_cast<double>(end_.allocations - begin_.allocations);
    r.p50_us = percentile(0.50);
    r.p99_us = percentile(0.99);
    return r;
  }

  void fill() {
    for (std::size_t i = 0; i < options_.callers; ++i) start(filler());
    finish();
  }

 private:
  struct snapshot {
    steady::time_point time;
    std::uint64_t checks = 0;
    double client_cpu = 0;
    double server_cpu = 0;
    std::uint64_t allocations = 0;
  };

  snapshot take() const {
    return {steady::now(), checks_, cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), server_.cpu_seconds(),
            bench::allocations()};
  }

  void start(asio::awaitable<void>&& work) {
    ++running_;
    asio::co_spawn(context_, std::move(work), [this](std::exception_ptr e) {
      if (e && !failure_) failure_ = e;
      if (e) over_ = true;
      if (--running_ == 0) store_.close();
    });
  }

  void finish() {
    context_.run();
    if (failure_) std::rethrow_exception(failure_);
    if (refused_ != 0) throw std::runtime_error("checks were refused");
  }

  /// Looks at the clock for one check in `stride`: two looks cost as much as a third of a check.
  asio::awaitable<void> caller(std::size_t index) {
    const std::size_t stride = options_.callers <= 64 ? 1 : 16;
    for (std::size_t i = index; !over_; ++i) {
      const subject_text subject(next_number());
      const bool timed = i % stride == 0;
      const auto before = timed ? steady::now() : steady::time_point();
      const weir::decision d = co_await limiter_.record(subject.view());
      if (timed && measuring_) latencies_.push_back(steady::now() - before);
      ++checks_;
      refused_ += d.allowed ? 0 : 1;
    }
  }

  asio::awaitable<void> observer() {
    asio::steady_timer timer(context_);
    timer.expires_after(std::chrono::duration_cast<steady::duration>(options_.warm_up));
    co_await timer.async_wait(asio::deferred);
    begin_ = take();
    measuring_ = true;
    timer.expires_after(std::chrono::duration_cast<steady::duration>(options_.measured));
    co_await timer.async_wait(asio::deferred);
    end_ = take();
    measuring_ = false;
    over_ = true;
  }

  asio::awaitable<void> filler() {
    while (filled_ < key_count) {
      const subject_text subject(filled_++);
      co_await limiter_.record(subject.view());
    }
  }

  // xorshift32; the remainder's bias does not matter here.
  std::uint32_t next_number() noexcept {
    if (hot_) return 0;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_ % key_count;
  }

  double percentile(double part) {
    if (latencies_.empty()) return 0;
    const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(latencies_.size() - 1));
    std::nth_element(latencies_.begin(), latencies_.begin() + at, latencies_.end());
    return std::chrono::duration<double, std::micro>(latencies_[at]).count();
  }

  const redis_server& server_;
  const load_options options_;
  const bool hot_;
  asio::io_context context_{1};
  weir::store store_;
  weir::limiter limiter_;

  std::size_t running_ = 0;
  bool measuring_ = false;
  bool over_ = false;
  std::exception_ptr failure_;
  std::uint64_t checks_ = 0;
  std::uint64_t refused_ = 0;
  std::uint32_t filled_ = 0;
  std::uint32_t random_ = 2463534242;
  std::vector<steady::duration> latencies_;
  snapshot begin_, end_;
};

/// A check that nobody waits for.
class silent_check final : public weir::detail::check_of<weir::detail::record_request> {
 public:
  silent_check(std::shared_ptr<const weir::detail::limiter_spec> core, std::string_view subject)
      : check_of(std::move(core), {weir::detail::short_text(subject)}) {}
  void finish(weir::detail::delivery) override {}
};

}  // namespace

load_result run_load(const redis_server& server, const workload& work,
                     const load_options& options) {
  return load(server, work, options).measure();
}

void fill(const redis_server& server, const workload& work) {
  load_options options;
  options.callers = 1024;
  load(server, work, options).fill();
}

std::vector<std::string> command_of(const workload& work) {
  namespace redis = weir::redis;
  asio::io_context never_run;
  const weir::store store = weir::make_memory_store(never_run.get_executor());
  const auto core = std::make_shared<const weir::detail::limiter_impl>(
      store.backend(), work.name, weir::tiers(work.policy), weir::limiter_options{});
  const std::string hot(subject_text(0).view());
  silent_check check(core, work.traffic == traffic::hot ? hot : "__rand_int__");

  weir::detail::check_list line;
  line.push_back(check);
  redis::coalescer coalescer(1);
  std::string bytes;
  std::string scratch;
  redis::write_call(bytes, coalescer.pack(line).front(), scratch);

  // A command is an array of strings: the reader of replies can take it apart.
  redis::reply_reader reader;
  std::copy(bytes.begin(), bytes.end(), reader.prepare(bytes.size()).begin());
  reader.commit(bytes.size());
  weir::error_code ec;
  std::vector<std::string> words;
  for (const redis::node& n : reader.next(ec)->nodes().subspan(1)) words.emplace_back(n.text);
  return words;
}

}  // namespace bench
