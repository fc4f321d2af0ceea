// Ten thousand faults in one run, of every kind, at random bytes. After each: no caller is left
// waiting, none was told what was meant for another, no limit was passed, and the store finds its
// way back by itself. In the end: nothing has grown.
#include <malloc.h>

#include <filesystem>

#include "fault/ledger.hpp"
#include "fault/proxied.hpp"
#include "support/sanitized.hpp"

namespace ten_thousand_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t faults = 10'000;
constexpr std::size_t phases = 10;
constexpr std::size_t lanes = 8;
constexpr std::int64_t few = 3;

limiter few_of(const store& s) { return {s, "few", fixed_window{.limit = few, .window = 24h}}; }

/// What the whole run has seen.
struct record_book {
  std::size_t successes = 0;
  std::map<std::string, std::size_t> errors;
};

/// One store behind a proxy of its own, in trouble all the time.
class lane {
 public:
  lane(asio::io_context& io, const redis_server& server, std::uint32_t number, record_book& book)
      : io_(io),
        name_("lane " + std::to_string(number)),
        random_(run_seed(), number),
        book_(book),
        proxy_(io, server),
        store_(make_redis_store(io.get_executor(), options(server, number % 4 == 0))),
        limiters_(one_limiter_of_each_kind(store_)),
        few_(few_of(store_)) {}

  std::size_t faults_seen() const { return proxy_.counts().all_faults(); }
  const fault_proxy::tally& counts() const { return proxy_.counts(); }

  void renew_accounts(const std::vector<limiter>& straight, std::size_t phase) {
    accounts_ = open_accounts(io_, limiters_, straight, 24,
                              name_ + ", phase " + std::to_string(phase));
    busy_.assign(accounts_.size(), false);
  }
  const std::vector<account>& accounts() const { return accounts_; }

  /// One fault, and what has to hold after it.
  asio::awaitable<void> round(limiter straight_few) {
    const fault f = random_fault(random_, 150);
    if (random_.one_in(4)) {
      // The next connections, up to the handshake's end and beyond.
      proxy_.plan([this](std::size_t) { return std::vector<fault>{random_fault(random_, 1500)}; });
    }
    proxy_.strike(f);
    const std::string subject = name_ + ", round " + std::to_string(++rounds_);
    burst b(io_.get_executor());
    for (std::int64_t n = random_.between(2, 12); n > 0; --n) call_for_an_account(b);
    for (int i = 0; i < few + 2; ++i) call_for_few(b, subject);
    co_await b.over.wait();
    proxy_.lift();
    co_await recover();

    // The server's word, by a connection without faults.
    const auto [ec, d] = co_await straight_few.fetch(subject, asio::as_tuple(asio::deferred));
    BOOST_CHECK_MESSAGE(
        !ec && b.admitted <= d.used && d.used <= few && d.used <= b.admitted + b.unanswered,
        subject << " after " << to_string(f.what) << ": the server counts " << d.used
                << ", told were " << b.admitted << ", unanswered " << b.unanswered
                << ", allowed are " << few);
  }

 private:
  struct burst {
    explicit burst(const asio::any_io_executor& executor) : over(executor) {}
    flag over;
    std::size_t pending = 0;
    std::int64_t admitted = 0;
    std::int64_t unanswered = 0;
  };

  redis_options options(const redis_server& server, bool with_breaker) const {
    redis_options o = patient_options(server);
    o.port = static_cast<std::uint16_t>(proxy_.port());
    o.backoff_max = 2ms;
    o.connect_timeout = 100ms;
    o.silence_timeout = 25ms;
    o.ping_interval = 20ms;
    o.breaker_failures = with_breaker ? 10 : 0;
    if (with_breaker)
      o.timeout = 20ms;  // all calls have deadlines of their own; this is the circuit's timeout
    o.breaker_pause = 2ms;
    return o;
  }

  std::chrono::microseconds short_time() {
    return std::chrono::microseconds(random_.between(1000, 30'000));
  }

  void note(const error_code& ec) {
    if (!ec) {
      ++book_.successes;
      return;
    }
    ++book_.errors[ec.message()];
    BOOST_CHECK_MESSAGE(ec == condition::not_counted || ec == condition::may_have_counted,
                        ec.message());
  }

  void done(burst& b) {
    if (--b.pending == 0) b.over.set();
  }

  void call_for_an_account(burst& b) {
    const auto i = static_cast<std::size_t>(random_.between(0, accounts_.size() - 1));
    if (busy_[i]) return;
    busy_[i] = true;
    ++b.pending;
    account& a = accounts_[i];
    a.where.record(a.subject, {.cost = a.cost, .timeout = short_time()},
                   [this, i, &b](error_code ec, decision d) {
                     BOOST_TEST(busy_[i]);
                     busy_[i] = false;
                     note(ec);
                     accounts_[i].hear(ec, d, ec == condition::not_counted);
                     done(b);
                   });
  }

  void call_for_few(burst& b, const std::string& subject) {
    ++b.pending;
    few_.record(subject, {.timeout = short_time()}, [this, &b](error_code ec, decision d) {
      note(ec);
      if (!ec && d.allowed) ++b.admitted;
      if (ec == condition::may_have_counted) ++b.unanswered;
      done(b);
    });
  }

  /// Calls until one succeeds, as a service would. A store that does not come back meets the
  /// watchdog.
  asio::awaitable<void> recover() {
    account& a = accounts_[rounds_ % accounts_.size()];
    for (;;) {
      const auto [ec, d] = co_await a.where.record(a.subject, {.cost = a.cost, .timeout = 1s},
                                                   asio::as_tuple(asio::deferred));
      note(ec);
      if (a.hear(ec, d, ec == condition::not_counted)) co_return;
    }
  }

  asio::io_context& io_;
  std::string name_;
  random_source random_;
  record_book& book_;
  fault_proxy proxy_;
  store store_;
  std::vector<limiter> limiters_;
  limiter few_;
  std::vector<account> accounts_;
  std::vector<bool> busy_;
  std::size_t rounds_ = 0;
};

struct footprint {
  std::size_t bytes = ::mallinfo2().uordblks;
  std::ptrdiff_t files = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
};

BOOST_AUTO_TEST_SUITE(ten_thousand_suite)

BOOST_AUTO_TEST_CASE(ten_thousand_faults) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    redis_server server;
    asio::io_context io;
    record_book book;
    const auto direct = make_redis_store(io.get_executor(), patient_options(server));
    const auto straight = one_limiter_of_each_kind(direct);
    std::vector<std::unique_ptr<lane>> all;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      all.push_back(std::make_unique<lane>(io, server, i, book));
    }
    const auto seen = [&] {
      std::size_t n = 0;
      for (const auto& one : all) n += one->faults_seen();
      return n;
    };

    std::optional<footprint> early;
    for (std::size_t phase = 1; phase <= phases; ++phase) {
      for (const auto& one : all) one->renew_accounts(straight, phase);
      std::size_t running = lanes;
      for (const auto& one : all) {
        asio::co_spawn(
            io,
            [&, me = one.get()]() -> asio::awaitable<void> {
              while (seen() < faults * phase / phases) co_await me->round(few_of(direct));
            },
            [&](std::exception_ptr e) {
              BOOST_TEST(!e);
              --running;
            });
      }
      run_until(io, [&] { return running == 0; });
      for (const auto& one : all) {
        check_in_the_end(io, one->accounts(), straight);
      }
      if (phase == 2) early.emplace();
    }
    const footprint late;
    BOOST_TEST(late.files <= early->files + static_cast<std::ptrdiff_t>(4 * lanes));
    if (!is_sanitized) {
      BOOST_TEST(late.bytes < early->bytes + 300'000);  // less than 40 bytes a fault
    }

    BOOST_TEST(seen() >= faults);
    BOOST_TEST(book.successes > faults);
    for (std::size_t k = 1; k < fault::kinds; ++k) {
      std::size_t n = 0;
      for (const auto& one : all) n += one->counts().faults[k];
      BOOST_TEST_MESSAGE(to_string(static_cast<fault::kind>(k)) << ": " << n);
      BOOST_TEST(n > faults / 100);
    }
    BOOST_TEST_MESSAGE(book.successes << " successes");
    for (const auto& [message, n] : book.errors) BOOST_TEST_MESSAGE(n << " times " << message);
    BOOST_TEST_MESSAGE("bytes in use: " << early->bytes << " early, " << late.bytes
                                        << " late; files: " << early->files << ", " << late.files);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace ten_thousand_test
