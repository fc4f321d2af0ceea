// A process that stands still (SIGSTOP) for longer than a call may take: its calls are answered
// when it goes on, because their replies wait in the socket.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "support/memcached_server.hpp"
#include "support/redis_server.hpp"
#include "support/run.hpp"

namespace standstill_test {

using namespace weir;
using namespace weir::test;

constexpr int callers = 100, stops = 20;

/// What a process tells, in memory that it shares with its parent.
struct tally {
  std::atomic<std::int64_t> answered{0}, failed{0};
  std::atomic<int> last_error{0};
};

/// Calls again and again.
struct caller {
  caller(const limiter& l, std::string s, tally& t) : where(l), subject(std::move(s)), told(t) {}
  void call() {
    where.record(subject, [this](error_code ec, const decision&) {
      if (ec) told.last_error = ec.value();
      ++(ec ? told.failed : told.answered);
      call();
    });
  }
  limiter where;
  std::string subject;
  tally& told;
};

/// A process whose callers call for ever, from so many threads.
class child {
 public:
  child(const std::string& url, int threads)
      : told_(new(::mmap(nullptr, sizeof(tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) tally) {
    pid_ = ::fork();
    BOOST_TEST_REQUIRE(pid_ >= 0);
    if (pid_ == 0) live(url, threads);
  }
  ~child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::munmap(told_, sizeof(tally));
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  void send(int signal) { BOOST_TEST_REQUIRE(::kill(pid_, signal) == 0); }
  std::int64_t answered() const { return told_->answered; }
  std::int64_t failed() const { return told_->failed; }
  std::string last_error() const {
    return make_error_code(static_cast<error>(told_->last_error.load())).message();
  }

 private:
  [[noreturn]] void live(const std::string& url, int threads) {
    asio::io_context io(threads);
    const limiter l(open_store(io.get_executor(), url), std::to_string(::getpid()),
                    fixed_window{.limit = 1'000'000'000, .window = 24h});
    std::deque<caller> all;
    for (int i = 0; i < callers; ++i) all.emplace_back(l, "s" + std::to_string(i), *told_).call();
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&] { io.run(); });
    io.run();
    ::_exit(1);
  }

  tally* const told_;
  pid_t pid_ = -1;
};

void wait_for(const std::function<bool()>& what) {
  const auto limit = std::chrono::steady_clock::now() + watchdog;
  while (!what()) {
    BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() < limit));
    std::this_thread::sleep_for(1ms);
  }
}

BOOST_AUTO_TEST_SUITE(standstill_suite)

// Memcached's calls had read their value, and were not given the time to write it. With Redis and
// several threads, the timer ran before the read: all calls ended with no_reply, and the circuit
// opened.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_for_longer_than_a_timeout_loses_no_calls) {
  const redis_server redis;
  const memcached_server_process memcached;
  const std::string on_redis = "redis://127.0.0.1:" + std::to_string(redis.port());
  const std::string on_memcached = "memcached://127.0.0.1:" + std::to_string(memcached.port());
  std::deque<child> children;
  for (const int threads : {1, 4}) {
    for (const std::string& url : {on_redis, on_memcached}) children.emplace_back(url, threads);
  }
  const auto all_answered = [&] {
    std::vector<std::int64_t> before;
    for (const child& c : children) before.push_back(c.answered());
    wait_for([&] {
      for (std::size_t i = 0; i < children.size(); ++i) {
        if (children[i].answered() < before[i] + 20 * callers) return false;
      }
      return true;
    });
  };
  for (int stop = 0; stop < stops; ++stop) {
    all_answered();
    for (child& c : children) c.send(SIGSTOP);
    std::this_thread::sleep_for(1s);  // twice the timeout
    for (child& c : children) c.send(SIGCONT);
  }
  all_answered();
  for (const child& c : children) {
    BOOST_TEST_MESSAGE(c.failed() << " of " << stops * callers << " failed, " << c.last_error());
    BOOST_TEST(c.failed() <= stops * callers / 100);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace standstill_test
