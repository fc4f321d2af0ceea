// Four processes wait for reservations at one server, each with hundreds of coroutines. Some of
// them leave before their time has come, and one process is killed in the middle. A wire between
// them and the server reads what was asked and what was given.
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "support/child_processes.hpp"
#include "support/random_source.hpp"
#include "support/reservation_wire.hpp"
#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace waiting_fleet_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::decision;
using weir::error_code;
using weir::limiter;
using weir::policy;
using weir::test::random_source;
using weir::test::reservation_wire;

constexpr std::size_t processes = 4;
constexpr std::size_t to_be_killed = 2;
constexpr int coroutines = 60;  // in each process, for each limiter
constexpr int calls_each = 8;

struct rules {
  const char* resource;
  std::vector<policy> policies;

  limiter open(const weir::store& s) const {
    return policies.size() == 1 ? limiter(s, resource, policies[0])
                                : limiter(s, resource, weir::tiers(policies[0], policies[1]));
  }
};

// Each is full after the first calls of one process, however late the others come.
const std::array<rules, 4> limiters{{
    {"bucket", {weir::token_bucket{.capacity = 20, .refill = weir::per_second(500)}}},
    {"log", {weir::sliding_log{.limit = 50, .window = 100ms}}},
    {"window", {weir::fixed_window{.limit = 50, .window = 100ms, .anchor = weir::anchor::epoch}}},
    {"both",
     {weir::gcra{.rate = weir::per_second(600), .burst = 30},
      weir::sliding_log{.limit = 500, .window = 1s}}},
}};

/// What a process tells of one call. Small enough for a pipe to keep it in one piece.
struct report {
  enum class kind : std::int32_t { used, left, refused, failed, too_early };
  std::int32_t process;
  std::int32_t limiter;
  kind what;
  std::int64_t at, turn, cost;
};

/// A process's whole life.
class child {
 public:
  child(int process, const std::string& path, int result)
      : process_(process), result_(result), random_(weir::test::run_seed(), 1200u + process) {
    weir::redis_options options;
    options.unix_path = path;
    options.timeout = 50s;
    options.silence_timeout = 50s;
    store_.emplace(weir::make_redis_store(io_.get_executor(), options));
  }

  void run() {
    for (std::size_t l = 0; l < limiters.size(); ++l) {
      const limiter opened = limiters[l].open(*store_);
      for (int i = 0; i < coroutines; ++i) {
        ++running_;
        asio::co_spawn(io_, live(opened, static_cast<std::int32_t>(l)),
                       [this](std::exception_ptr e) {
                         if (e) tell({process_, 0, report::kind::failed, 0, 0, 0});
                         if (--running_ == 0) finish();
                       });
      }
    }
    io_.run();
  }

 private:
  asio::awaitable<void> live(limiter l, std::int32_t number) {
    asio::steady_timer timer(io_);
    for (int i = 0; i < calls_each; ++i) {
      const auto leave = std::make_shared<asio::cancellation_signal>();
      if (random_.one_in(4)) {
        timer.expires_after(std::chrono::milliseconds(random_.between(0, 800)));
        timer.async_wait([leave](error_code ec) {
          if (!ec) leave->emit(asio::cancellation_type::terminal);
        });
      }
      const weir::acquire_options asked{.cost = random_.one_in(2) ? 1 : random_.between(1, 4),
                                        .max_wait = random_.one_in(5) ? 300ms : 20'000ms};
      const auto begin = std::chrono::steady_clock::now();
      const auto [ec, d] = co_await l.acquire(
          "all", asked,
          asio::bind_cancellation_slot(leave->slot(), asio::as_tuple(asio::use_awaitable)));
      const bool early = !ec && std::chrono::steady_clock::now() - begin < d.delay;
      timer.cancel();
      const auto what = early                                  ? report::kind::too_early
                        : ec == asio::error::operation_aborted ? report::kind::left
                        : ec                                   ? report::kind::failed
                        : d.allowed                            ? report::kind::used
                                                               : report::kind::refused;
      tell({process_, number, what, d.decided_at.time_since_epoch().count(),
            (d.decided_at + d.delay).time_since_epoch().count(), asked.cost});
    }
  }

  /// What was given back last has to be sent: behind it, an answer comes.
  void finish() {
    limiters[0].open(*store_).fetch("all",
                                    [this](error_code, const decision&) { store_->close(); });
  }

  void tell(const report& r) {
    if (::write(result_, &r, sizeof r) != ssize_t{sizeof r}) ::_exit(2);
    const bool is_to_die = process_ == static_cast<int>(to_be_killed);
    if (is_to_die && ++reports_ == 4 * coroutines) ::kill(::getpid(), SIGKILL);
  }

  const int process_;
  const int result_;
  random_source random_;
  asio::io_context io_{1};
  std::optional<weir::store> store_;
  int running_ = 0;
  int reports_ = 0;
};

/// Waits for a path to connect to. No destructor of the parent's, and no assertion.
[[noreturn]] void be_child(int process, int go, int result) {
  ::alarm(120);  // should the parent be gone
  try {
    std::array<char, 256> path{};
    if (::read(go, path.data(), path.size()) != ssize_t{path.size()}) ::_exit(1);
    child(process, path.data(), result).run();
    ::_exit(0);
  } catch (...) {
    ::_exit(3);
  }
}

struct fixture {
  const std::uint64_t seed = weir::test::run_seed();  // the children's, too
  // Room for all reports: a child that waited for room would not read its answers, and so this
  // process, which writes them on the wire, would not read the reports.
  weir::test::child_processes<processes> children{be_child, 1 << 20};
  weir::test::redis_server server{{.unix_socket = true}};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(waiting_fleet_suite, fixture)

BOOST_AUTO_TEST_CASE(four_processes_wait_and_one_is_killed) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  asio::io_context io;
  reservation_wire wire(io.get_executor(), server);
  for (const rules& r : limiters) wire.expect(r.resource, r.policies);
  std::array<char, 256> path{};
  wire.path().copy(path.data(), path.size() - 1);
  children.send_all(path);

  // Until all of them have ended: then no process holds the pipe's other end.
  std::vector<report> reports;
  bool over = false;
  asio::posix::stream_descriptor told(io, children.results);
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        for (report r;;) {
          const auto [ec, size] = co_await asio::async_read(told, asio::buffer(&r, sizeof r),
                                                            asio::as_tuple(asio::use_awaitable));
          if (ec) break;
          reports.push_back(r);
        }
        over = true;
      },
      asio::detached);
  weir::test::run_until(io, [&] { return over; });
  for (std::size_t i = 0; i < processes; ++i) {
    const int status = children.wait(i);
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    BOOST_TEST((i == to_be_killed ? was_killed : status == 0));
  }
  // What the last ones gave back may be on its way.
  while (io.poll() > 0) {
  }

  std::int64_t asked = 0, calls = 0;
  for (std::size_t l = 0; l < limiters.size(); ++l) {
    const rules& r = limiters[l];
    BOOST_TEST_CONTEXT(r.resource) {
      const reservation_wire::line& line = wire.lines().at(std::string(r.resource) + ":all");
      const auto sum = line.ledger.check(r.policies);

      // By its time and cost. A reservation was used by the process that had been given it.
      std::multiset<std::pair<std::int64_t, std::int64_t>> given;
      for (const reservation_wire::told& t : line.answers) {
        const auto& a = line.ledger[t.number];
        given.emplace(a.turn, a.cost);
      }
      std::int64_t used = 0, units = 0, left = 0;
      std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
      for (const report& told_of : reports) {
        if (told_of.limiter != static_cast<std::int32_t>(l)) continue;
        BOOST_TEST((told_of.what != report::kind::failed));
        BOOST_TEST((told_of.what != report::kind::too_early));
        left += told_of.what == report::kind::left;
        if (told_of.what != report::kind::used) continue;
        const auto found = given.find({told_of.turn, told_of.cost});
        BOOST_TEST_REQUIRE((found != given.end()));
        given.erase(found);
        ++used;
        units += told_of.cost;
        first = std::min(first, told_of.turn);
        last = std::max(last, told_of.turn);
      }
      // What is lost: of the killed process, one of each coroutine, and those of its calls that had
      // left, as long as they were not sent back; and, of any process that found no time for a
      // second, what it could not send back meanwhile. (Nothing would come back of that any more.)
      const std::int64_t lost = sum.at_once + sum.reserved - sum.given_back - used;
      BOOST_TEST(lost >= 0);
      BOOST_TEST(lost <= coroutines + left);
      BOOST_TEST(sum.reserved > 10);
      BOOST_TEST(left > 20);
      BOOST_TEST(sum.given_back > 10);
      BOOST_TEST_MESSAGE(r.resource << ": " << sum.text() << "; " << lost << " lost; "
                                    << units * 1'000'000 / (last - first)
                                    << " units used a second; "
                                    << line.ledger.size() + static_cast<std::size_t>(sum.given_back)
                                    << " calls and returns in " << line.calls);
      asked += static_cast<std::int64_t>(line.ledger.size()) + sum.given_back;
      calls += line.calls;
    }
  }
  // No waiter asks twice, and waiters that come at one time are asked for together. (The last ones
  // ask once more each.)
  weir::test::redis_client client(server);
  const std::int64_t at_the_server = weir::test::script_calls_of(client);
  BOOST_TEST(at_the_server <= asked + static_cast<std::int64_t>(processes));
  BOOST_TEST(calls < asked);
  BOOST_TEST_MESSAGE(asked << " turns asked for or given back, in " << at_the_server
                           << " script calls");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiting_fleet_test
