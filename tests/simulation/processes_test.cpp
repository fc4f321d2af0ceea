// The waiters of several processes on one real server, whose clock is the test's too: nobody
// sleeps. What they send and hear is on its way for a while, they leave at any moment, and
// processes die.
#include <tuple>

#include "simulation/crowd.hpp"
#include "simulation/simulated_time.hpp"
#include "support/reservation_wire.hpp"
#include "support/shifted_clock.hpp"
#include "support/stores.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace processes_test {

using namespace weir;
using namespace weir::test;
using simulation::shape;
using simulation::waiter;
using test::reservation_wire;

constexpr std::int64_t ahead = 1'790'000'000'123'456;  // the server's clock, of the simulated one
constexpr std::size_t process_count = 4;
constexpr std::int64_t longest_delay = 10'000;  // in each direction
// Until an answer is there: a process that has just started connects and greets the server before.
constexpr std::int64_t longest_way = 10 * longest_delay;

enum class processes { live, die };

struct servers {
  test::shifted_clock clock;
  test::redis_server redis{{.unix_socket = true, .environment = clock.environment()}};
};

/// All that is gone when a process is killed.
struct process {
  process(const shape& s, const reservation_wire& wire)
      : limiter(s.open(make_redis_store(context.io().get_executor(), options(wire)))) {}

  static redis_options options(const reservation_wire& wire) {
    redis_options o;
    o.unix_path = wire.path();
    o.timeout = std::chrono::seconds{10};
    return o;
  }

  simulation::simulated_context context;
  weir::limiter limiter;
  std::size_t connection = 0;
};

class simulated_fleet : simulation::crowd {
 public:
  simulated_fleet(servers& s, const shape& of, processes how)
      : crowd(of, 1100 + static_cast<std::uint32_t>(how)),
        servers_(s),
        how_(how),
        wire_(wire_context_.io().get_executor(), s.redis,
              {.delay = [this] { return microseconds(random_.magnitude(longest_delay)); },
               .before_command = [this] { set_clock(); }}) {
    wire_.expect("r", of.policies);
    set_clock();
    test::redis_client(s.redis).must("FLUSHALL");
    for (std::size_t i = 0; i < process_count; ++i) start(i);
  }

  test::reservation_ledger::totals run(std::int64_t count) {
    run_all(count);
    // What was given back last arrives.
    const std::int64_t end = simulation::now() + 100'000;
    while (simulation::next_timer() <= end) {
      simulation::advance_to(simulation::next_timer());
      settle();
    }
    return check();
  }

  std::int64_t killed() const noexcept { return killed_; }

 private:
  void set_clock() { servers_.clock.stop_at(microseconds(ahead + simulation::now())); }

  void start(std::size_t i) {
    processes_[i] = std::make_unique<process>(shape_, wire_);
    processes_[i]->connection = started_++;
    // Connections are counted in the order in which they come.
    settle();
  }

  void kill(std::size_t i) {
    processes_[i].reset();
    ++killed_;
    for (waiter& w : all_) {
      if (w.process != i || !w.leave) continue;
      if (w.answers == 0) {
        w.leave.reset();
        --waiting_;
        ++dead_[w.subject];
      } else if (w.ec && w.frame_hint + longest_way > simulation::now()) {
        // The caller has left. Its answer may be on its way: no process gives that reservation back
        ++dead_[w.subject];
      }
    }
    start(i);
  }

  void disturb(bool more_come) override {
    if (how_ == processes::die && more_come && random_.one_in(500)) {
      kill(static_cast<std::size_t>(random_.between(0, process_count - 1)));
    }
  }

  void arrive() override {
    waiter& w = next_waiter(true);
    w.process = static_cast<std::size_t>(random_.between(0, process_count - 1));
    const process& p = *processes_[w.process];
    w.connection = p.connection;
    auto leaves_after = w.leaves_after;
    // Also while the call is on its way.
    if (leaves_after && random_.one_in(4)) leaves_after = random_.magnitude(20'000);
    ask(p.limiter, w, leaves_after);
  }

  void settle() override {
    for (std::size_t handlers = 1; handlers > 0;) {
      handlers = wire_context_.poll();
      for (const auto& p : processes_) {
        if (p) handlers += p->context.poll();
      }
    }
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }

  test::reservation_ledger::totals check() {
    test::reservation_ledger::totals sum;
    for (std::size_t subject = 0; subject < simulation::subjects; ++subject) {
      const auto found = wire_.lines().find("r:" + simulation::subject_name(subject));
      require(found != wire_.lines().end(), "nobody came to one of the subjects");
      const reservation_wire::line& line = found->second;
      const auto of_line = line.ledger.check(shape_.policies);
      const std::int64_t woken = check_waiters(subject, line);
      // Nothing that was reserved is forgotten, but by processes that died.
      const std::int64_t lost = of_line.at_once + of_line.reserved - of_line.given_back - woken;
      require(lost >= 0 && lost <= dead_[subject], std::to_string(lost) +
                                                       " turns neither used nor given back, " +
                                                       std::to_string(dead_[subject]) + " died");
      require(line.calls <= static_cast<std::int64_t>(line.ledger.size()) + of_line.given_back,
              "more calls than waiters and returns");
      sum += of_line;
    }
    return sum;
  }

  /// A turn that was given in one of the answers to a process wakes one waiter there: so long after
  /// that answer as it said, or later, if the answer about an earlier turn there took longer, by as
  /// much at most. If it was that of a caller who left, it may wake another one later, when the
  /// last answer is there or the next caller comes; or earlier, when the turn is due that the other
  /// one had, but not before itself. Returns how many.
  std::int64_t check_waiters(std::size_t subject, const reservation_wire::line& line) const {
    std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::multiset<std::int64_t>>
        announced;
    // How much later than a turn itself, in the answers about turns up to that.
    std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> latest;
    for (const reservation_wire::told& t : line.answers) {
      const auto& a = line.ledger[t.number];
      const auto heard = std::chrono::duration_cast<microseconds>(t.at.time_since_epoch()).count();
      const std::int64_t due = heard + a.turn - a.at;
      announced[{t.connection, a.turn, a.cost}].insert(due);
      auto& last = latest[{t.connection, a.turn}];
      last = std::max(last, due - a.turn);
    }
    for (auto l = latest.begin(); l != latest.end(); ++l) {
      const auto next = std::next(l);
      const bool is_of_one = next != latest.end() && next->first.first == l->first.first;
      if (is_of_one) next->second = std::max(next->second, l->second);
    }
    const auto events = events_of(subject);
    std::int64_t woken = 0;
    for (const waiter& w : all_) {
      if (w.subject != subject || !w.leave) continue;
      require(w.answers == 1, "somebody was not answered once");
      require(!w.ec || w.ec == asio::error::operation_aborted, w.ec.message());
      if (w.ec || !w.said.allowed) continue;
      auto& dues = announced[{w.connection, w.turn(), w.cost}];
      const auto later = dues.upper_bound(w.answered_at);
      const bool is_early = later == dues.begin();
      require(!is_early || (!dues.empty() && w.answered_at + ahead >= w.turn()),
              "woken before its turn");
      require(w.answered_at <= w.turn() + latest.at({w.connection, w.turn()}) ||
                  events.contains({w.connection, w.answered_at}),
              "woken after its turn");
      dues.erase(is_early ? later : std::prev(later));
      ++woken;
    }
    return woken;
  }

  /// When replies came to the processes, and when callers came and left.
  std::set<std::pair<std::size_t, std::int64_t>> events_of(std::size_t subject) const {
    std::set<std::pair<std::size_t, std::int64_t>> events;
    for (const auto& [connection, at] : wire_.replied()) {
      events.emplace(connection,
                     std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count());
    }
    for (const waiter& w : all_) {
      if (w.subject != subject) continue;
      events.emplace(w.connection, w.frame_hint);
      if (w.ec) events.emplace(w.connection, w.answered_at);
    }
    return events;
  }

  servers& servers_;
  const processes how_;
  simulation::simulated_context wire_context_;
  reservation_wire wire_;
  std::array<std::unique_ptr<process>, process_count> processes_;
  std::size_t started_ = 0;
  std::int64_t killed_ = 0;
  std::array<std::int64_t, simulation::subjects> dead_{};
};

void run_all(processes how) {
  servers all;
  const auto& shapes = simulation::shapes();
  const std::int64_t count = simulation::count_of_waiters() /
                             static_cast<std::int64_t>(shapes.size());
  test::reservation_ledger::totals total;
  std::int64_t killed = 0;
  for (const shape& s : shapes) {
    BOOST_TEST_CONTEXT(s.name << ", WEIR_TEST_SEED=" << test::run_seed()) {
      try {
        simulated_fleet fleet(all, s, how);
        const auto sum = fleet.run(count);
        BOOST_TEST_MESSAGE(s.name << ": " << sum.text() << ", " << fleet.killed() << " killed");
        total += sum;
        killed += fleet.killed();
      } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
      }
    }
  }
  // A single shape may have had a quiet time.
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed()) {
    const std::int64_t some = simulation::count_of_waiters() / 500;
    BOOST_TEST(total.at_once > some);
    BOOST_TEST(total.reserved > some);
    BOOST_TEST(total.refused > some);
    BOOST_TEST(total.given_back > some);
    BOOST_TEST((killed > 0) == (how == processes::die));
  }
}

BOOST_AUTO_TEST_SUITE(processes_suite)

BOOST_AUTO_TEST_CASE(processes_share_the_order_of_reservations) { run_all(processes::live); }

BOOST_AUTO_TEST_CASE(what_the_dead_held_is_all_that_is_lost) { run_all(processes::die); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace processes_test
