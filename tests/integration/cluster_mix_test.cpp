// All kinds of calls at once on a Redis Cluster whose slots move, whose masters hand over or are
// killed, and whose nodes come and go: nothing is counted twice, no call hangs, and all counts are
// right afterwards.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster_fixture.hpp"

namespace cluster_mix_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::decision;
using weir::error;
using weir::error_code;
using weir::limiter;
using weir::test::cluster_fixture;
using weir::test::redis_client;
using weir::test::replicated_cluster;

/// Nothing returns or is refused during a test.
weir::policy policy(std::size_t i) {
  constexpr std::int64_t limit = 50'000;
  const weir::policy all[] = {weir::token_bucket{.capacity = limit, .refill = weir::per_hour(1)},
                              weir::gcra{.rate = weir::per_hour(1), .burst = limit},
                              weir::fixed_window{.limit = limit, .window = 24h},
                              weir::sliding_window{.limit = limit, .window = 24h},
                              weir::sliding_log{.limit = limit, .window = 24h},
                              weir::leaky_bucket{.capacity = limit, .leak = weir::per_hour(1)}};
  return all[i];
}
constexpr std::size_t policies = 6, waiting_policies = 5;  // a leaky bucket delays acquire()

/// What the servers must have counted for a subject: at least `low`, and with the calls of unknown
/// outcome at most `high`.
struct book {
  limiter l;
  std::string subject;
  std::uint16_t slot;
  std::int64_t low = 0, high = 0;
  std::int64_t returned = 0;  // what was given back while a replica did not have all
};

struct place;

/// Five loops of calls at each of several places, until end(). The subjects of every other place
/// share a slot.
struct mix {
  struct counters {
    std::int64_t records = 0, settled = 0, acquired = 0, aborted = 0, cooled = 0, refusals = 0,
                 entered = 0, released = 0;
    std::int64_t unknown = 0, late = 0, redirected = 0;
  };
  mix(asio::io_context& context, weir::store on, std::size_t count);
  ~mix();

  /// An error that the event explains: counted, or possibly counted, or not at all.
  bool failed(error_code ec, const char* call) {
    if (!ec) return false;
    BOOST_TEST_MESSAGE(call << ": " << ec.message());
    if (ec == weir::condition::may_have_counted) {
      ++done.unknown;
    } else if (ec == error::too_many_redirects) {
      ++done.redirected;
    } else {
      ++done.late;
      BOOST_CHECK_MESSAGE(outage && (ec == error::timed_out || ec == error::connection_refused ||
                                     ec == error::cluster_down || ec == error::read_only ||
                                     ec == error::slot_migrating),
                          call << ": " << ec.message());
    }
    return true;
  }
  bool lost(std::uint16_t slot) const { return lost_slots.contains(slot); }
  /// The answer to a call that took so many units, or gave them back.
  void count(book& b, error_code ec, std::int64_t units) {
    if (!ec || (ec == weir::condition::may_have_counted && units > 0)) b.high += units;
    if (!ec || (ec == weir::condition::may_have_counted && units < 0)) b.low += units;
    if (units < 0 && unsafe) b.returned -= units;
  }
  void check(const book& b, std::int64_t used) const {
    const bool gone = lost(b.slot);
    BOOST_CHECK_MESSAGE((gone || used >= b.low) && used <= b.high + (gone ? b.returned : 0),
                        b.l.resource()
                            << " of " << b.subject << ": " << used << " used, not " << b.low
                            << " to " << b.high << (gone ? ", lost its master" : ""));
  }

  asio::awaitable<void> record_and_settle(place& p);
  asio::awaitable<void> acquire_and_refund(place& p);
  asio::awaitable<void> cool_down(place& p);
  asio::awaitable<void> enter_and_leave(place& p);
  asio::awaitable<void> give_back(book& b, decision d, std::int64_t cost, std::int64_t actual);
  void acquire_and_cancel(place& p);

  /// Every loop has come round so many times from now on.
  void run_on(std::int64_t times);
  /// Some loops have, any of them.
  void run_some() {
    const std::int64_t mark = turns;
    weir::test::run_until(io, [&] { return turns >= mark + 40; });
  }
  void end() {
    stop = true;
    weir::test::run_until(io, [&] { return running == 0; });
  }

  asio::io_context& io;
  weir::store store;
  std::vector<std::unique_ptr<place>> places;
  counters done;
  std::set<std::uint16_t> lost_slots;  // of a master that was killed
  bool outage = false;                 // calls may fail at their deadlines
  bool unsafe = false;                 // what is counted now may be lost
  bool stop = false;
  int running = 0;
  std::int64_t turns = 0;
};

struct place {
  place(const weir::store& s, std::size_t i)
      : name("place " + std::to_string(i)),
        group(i % 2 == 0 ? "" : name),
        cold(s, "cold", policy(i % policies), {.group = group, .cool_downs = true}),
        gate(s, "gate", {.limit = 1000, .lease_duration = 1h, .group = group}),
        cancelled(make(s, "cancelled", 2 + i % 3)),
        timer(s.get_executor()) {
    for (std::size_t p = 0; p < policies; ++p) {
      books.push_back(make(s, "record " + std::to_string(p), p));
    }
    for (std::size_t p = 0; p < waiting_policies; ++p) {
      waits.push_back(make(s, "acquire " + std::to_string(p), p));
    }
  }
  std::uint16_t slot_of(const std::string& resource, const std::string& subject) const {
    return group.empty() ? weir::test::slot_of(resource, subject) : weir::redis::slot_of_tag(group);
  }
  book make(const weir::store& s, const std::string& resource, std::size_t p) {
    return {limiter(s, resource, policy(p), {.group = group}), name, slot_of(resource, name)};
  }

  std::string name, group;
  std::vector<book> books, waits;
  limiter cold;
  std::vector<std::string> cooled;  // subjects
  weir::concurrency_limiter gate;
  std::deque<weir::lease> leases;
  std::int64_t unsafe_leases = 0;  // given back while a replica did not have all
  book cancelled;
  std::int64_t tries = 0, aborted_unsafely = 0;
  asio::steady_timer timer;
  asio::cancellation_signal signal;
  std::int64_t turns[5] = {}, marks[5] = {};
};

mix::mix(asio::io_context& context, weir::store on, std::size_t count) : io(context), store(on) {
  const auto start = [this](asio::awaitable<void> loop) {
    ++running;
    asio::co_spawn(io, std::move(loop), [this](std::exception_ptr e) {
      BOOST_TEST(!e);
      --running;
    });
  };
  for (std::size_t i = 0; i < count; ++i) {
    place& p = *places.emplace_back(std::make_unique<place>(store, i));
    start(record_and_settle(p));
    start(acquire_and_refund(p));
    start(cool_down(p));
    start(enter_and_leave(p));
    ++running;
    acquire_and_cancel(p);
  }
}
mix::~mix() = default;

/// Settles a decision: again after an error, because it then counts once.
asio::awaitable<void> mix::give_back(book& b, decision d, std::int64_t cost, std::int64_t actual) {
  bool repeated = false;
  for (int i = 0; i < 5; ++i) {
    const auto [ec, after] = co_await b.l.settle(b.subject, d, actual,
                                                 asio::as_tuple(asio::deferred));
    if (!failed(ec, "settle")) {
      ++done.settled;
      BOOST_TEST((after.allowed || repeated));
      count(b, ec, actual - cost);
      check(b, after.used);
      co_return;
    }
    repeated = true;
  }
  // It may have been settled by any of these calls.
  count(b, error::outcome_unknown, actual - cost);
}

asio::awaitable<void> mix::record_and_settle(place& p) {
  for (std::int64_t round = 0; !stop; ++round) {
    for (std::size_t i = 0; i < p.books.size(); ++i) {
      book& b = p.books[i];
      const std::int64_t cost = 1 + round % 3;
      const weir::record_options options{.cost = cost};
      const auto [ec, d] = co_await b.l.record(b.subject, options, asio::as_tuple(asio::deferred));
      count(b, ec, cost);
      if (failed(ec, "record")) continue;
      ++done.records;
      BOOST_TEST(d.allowed);
      check(b, d.used);
      // All of it, less than it took, or more.
      if (round % 6 == static_cast<std::int64_t>(i)) {
        co_await give_back(b, d, cost, round % 12 < 6 ? 0 : 2);
      }
    }
    ++p.turns[0], ++turns;
  }
}

asio::awaitable<void> mix::acquire_and_refund(place& p) {
  for (std::int64_t round = 0; !stop; ++round) {
    for (std::size_t i = 0; i < p.waits.size(); ++i) {
      book& b = p.waits[i];
      const weir::acquire_options options{.cost = 2};
      const auto [ec, d] = co_await b.l.acquire(b.subject, options, asio::as_tuple(asio::deferred));
      count(b, ec, 2);
      if (failed(ec, "acquire")) continue;
      ++done.acquired;
      BOOST_TEST((d.allowed && d.delay == 0us));
      check(b, d.used);
      // The first decision of a bucket stays: it began to drain with it.
      if (round % 5 == static_cast<std::int64_t>(i) && round > 4) co_await give_back(b, d, 2, 0);
    }
    ++p.turns[1], ++turns;
  }
}

asio::awaitable<void> mix::cool_down(place& p) {
  for (std::size_t round = 0; !stop; ++round) {
    if (p.cooled.size() < 50) {
      const std::string subject = p.name + "/" + std::to_string(round);
      const auto [ec, d] = co_await p.cold.record(subject, asio::as_tuple(asio::deferred));
      if (!failed(ec, "record before a cool-down")) BOOST_TEST(d.allowed);
      const auto [ec2, d2] = co_await p.cold.cool_down(subject, 1h, asio::as_tuple(asio::deferred));
      if (!failed(ec2, "cool_down")) {
        ++done.cooled;
        BOOST_TEST(d2.cooling_down);
        p.cooled.push_back(subject);
      }
    }
    for (std::size_t i = 0; i < 3 && !p.cooled.empty(); ++i) {
      const std::string subject = p.cooled[(round * 7 + i) % p.cooled.size()];
      const auto [ec, d] = co_await p.cold.record(subject, asio::as_tuple(asio::deferred));
      if (failed(ec, "record during a cool-down")) continue;
      ++done.refusals;
      BOOST_TEST(((!d.allowed && d.cooling_down) || lost(p.slot_of("cold", subject))));
    }
    ++p.turns[2], ++turns;
  }
}

asio::awaitable<void> mix::enter_and_leave(place& p) {
  while (!stop) {
    auto [ec, in] = co_await p.gate.enter(p.name, asio::as_tuple(asio::deferred));
    if (!failed(ec, "enter")) {
      ++done.entered;
      BOOST_TEST(in.is_held());
      p.leases.push_back(std::move(in));
    }
    if (p.leases.size() > 3) {
      p.leases.pop_front();
      ++done.released;
      if (unsafe) ++p.unsafe_leases;
    }
    ++p.turns[3], ++turns;
  }
}

/// Cancels each acquire() sooner or later: before it is sent, while its answer is on the way, or
/// not at all.
void mix::acquire_and_cancel(place& p) {
  const auto answered = [this, &p](error_code ec, decision d) {
    p.timer.cancel();
    if (ec == asio::error::operation_aborted) {
      ++done.aborted;
      if (unsafe) ++p.aborted_unsafely;
    } else {
      count(p.cancelled, ec, 1);
      if (!failed(ec, "acquire, to be cancelled")) BOOST_TEST(d.allowed);
    }
    ++p.turns[4], ++turns;
    if (stop) {
      --running;
    } else {
      acquire_and_cancel(p);
    }
  };
  p.cancelled.l.acquire(p.cancelled.subject,
                        asio::bind_cancellation_slot(p.signal.slot(), answered));
  p.timer.expires_after(++p.tries % 20 * 250us);
  p.timer.async_wait([&p](error_code ec) {
    if (!ec) p.signal.emit(asio::cancellation_type::terminal);
  });
}

void mix::run_on(std::int64_t times) {
  for (auto& p : places) std::copy(std::begin(p->turns), std::end(p->turns), p->marks);
  weir::test::run_until(io, [&] {
    for (auto& p : places) {
      for (int i = 0; i < 5; ++i) {
        if (p->turns[i] < p->marks[i] + times) return false;
      }
    }
    return true;
  });
}

/// A cluster under the mix.
template <class Cluster>
struct under_mix : Cluster {
  using Cluster::answer, Cluster::cluster, Cluster::counted, Cluster::io,
      Cluster::run_while_waiting;
  weir::store store = Cluster::open(40s);  // however long an outage takes
  mix all{io, store, 8};
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  /// A slot of each place; another kind of call is there with another `pick`.
  std::vector<std::uint16_t> slots(std::size_t pick = 0) {
    std::vector<std::uint16_t> found;
    for (const auto& p : all.places) {
      const std::size_t i = found.size() + pick;
      const std::uint16_t of_kind[] = {p->books[i % policies].slot,
                                       p->waits[i % waiting_policies].slot, p->cancelled.slot,
                                       p->slot_of("gate", p->name)};
      found.push_back(of_kind[pick % 4]);
    }
    return found;
  }
  /// Waits until what nobody heard of has been given back; never, if that is lost.
  template <class Fetch>
  void settles_at(const std::string& what, std::int64_t least, std::int64_t most, Fetch&& fetch) {
    std::int64_t used = -1;
    const auto limit = std::chrono::steady_clock::now() + 20s;
    this->run_while_waiting(
        [&] { return (used = fetch()) <= most || std::chrono::steady_clock::now() > limit; });
    BOOST_CHECK_MESSAGE(used >= least && used <= most,
                        what << ": " << used << " used, not " << least << " to " << most);
  }
  /// Ends the mix, and compares all that the servers have counted.
  void compare() {
    all.end();
    std::int64_t lacking = 0, range = 0, total = 0;
    const auto compare_one = [&](const book& b) {
      const std::int64_t used = counted(b.l, b.subject);
      all.check(b, used);
      lacking += std::max<std::int64_t>(0, b.low - used);
      range += b.high - b.low;
      total += used;
    };
    std::int64_t warm = 0, cold = 0;
    for (auto& p : all.places) {
      for (const book& b : p->books) compare_one(b);
      for (const book& b : p->waits) compare_one(b);
      for (const std::string& subject : p->cooled) {
        const decision d = answer([&](auto h) { p->cold.record(subject, h); });
        const bool is_cold = !d.allowed && d.cooling_down;
        ++(is_cold ? cold : warm);
        BOOST_TEST((is_cold || all.lost(p->slot_of("cold", subject))));
      }
      const bool cancelled_gone = all.lost(p->cancelled.slot);
      settles_at("cancelled, " + p->name, cancelled_gone ? 0 : p->cancelled.low,
                 p->cancelled.high + (cancelled_gone ? p->aborted_unsafely : 0),
                 [&] { return counted(p->cancelled.l, p->cancelled.subject); });
      const bool gate_gone = all.lost(p->slot_of("gate", p->name));
      const std::int64_t stay = gate_gone ? p->unsafe_leases + all.done.unknown : 0;
      const auto inside = [&] { return answer([&](auto h) { p->gate.fetch(p->name, h); }).used; };
      const auto held = static_cast<std::int64_t>(p->leases.size());
      settles_at("gate, " + p->name, gate_gone ? 0 : held, held + stay, inside);
      for (const auto& l : p->leases) BOOST_TEST((gate_gone || l.is_held()));
      p->leases.clear();
      settles_at("empty gate, " + p->name, 0, stay, inside);
    }
    const auto& n = all.done;
    BOOST_TEST_MESSAGE(
        n.records << " records, " << n.settled << " settled, " << n.acquired << " acquired, "
                  << n.aborted << " cancelled, " << n.cooled << " cool-downs, " << n.refusals
                  << " refused by them, " << n.entered << " entered, " << n.released << " left; "
                  << n.unknown << " of unknown outcome, " << n.late << " at the deadline, "
                  << n.redirected << " redirected too often; " << total << " units counted, "
                  << range << " uncertain, " << lacking << " lacking; " << warm << " of "
                  << cold + warm << " cool-downs lost; "
                  << std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()
                  << " s");
    BOOST_TEST(n.records >= 400);
    BOOST_TEST(n.settled >= 60);
    BOOST_TEST(n.acquired >= 300);
    BOOST_TEST(n.aborted >= 20);
    BOOST_TEST(n.cooled >= 60);
    BOOST_TEST(n.refusals >= 200);
    BOOST_TEST(n.entered >= 60);
    BOOST_TEST(n.released >= 30);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_mix_suite)

BOOST_FIXTURE_TEST_CASE(slots_move_back_and_forth, under_mix<cluster_fixture>) {
  all.run_on(2);
  for (std::size_t round = 0; round < 8; ++round) {
    for (const std::uint16_t slot : slots(round / 2)) {
      const std::size_t from = cluster.owner_of(slot);
      const std::size_t to = (from + 1 + round % 2) % 3;  // there, and back
      cluster.begin_move(slot, from, to);
      all.run_some();  // calls with several keys wait
      cluster.move_keys(slot, from, to, 1);
      all.run_some();
      cluster.end_move(slot, from, to);
    }
    all.run_on(2);
  }
  compare();
  BOOST_TEST(all.done.unknown == 0);
}

BOOST_FIXTURE_TEST_CASE(masters_hand_over, under_mix<replicated_cluster>) {
  all.run_on(4);
  for (std::size_t i = 0; i < 3; ++i) {
    redis_client(cluster.node(3 + i)).must("CLUSTER", "FAILOVER");
    run_while_waiting([&] { return !cluster.slots_of(3 + i).empty(); });
    all.run_on(2);
  }
  compare();
  BOOST_TEST(all.done.unknown == 0);
  BOOST_TEST(all.done.redirected == 0);
}

// What the replica had not got is lost, for the slots of that master only.
BOOST_FIXTURE_TEST_CASE(a_master_is_killed, under_mix<replicated_cluster>) {
  all.run_on(4);
  cluster.replicate(0, 3);
  for (const std::uint16_t slot : cluster.slots_of(0)) all.lost_slots.insert(slot);
  all.unsafe = all.outage = true;
  // The replica hears nothing more, so there is something to lose.
  cluster.node(3).pause();
  redis_client(cluster.node(0)).must("CLIENT", "KILL", "TYPE", "replica");
  all.run_on(2);
  cluster.node(0).kill();
  cluster.node(3).resume();
  all.run_on(4);
  all.unsafe = false;
  all.run_on(2);
  compare();
  BOOST_TEST(all.done.unknown <= 80);  // those that were sent, and repeated
}

BOOST_FIXTURE_TEST_CASE(a_node_joins_and_leaves, under_mix<cluster_fixture>) {
  all.run_on(2);
  const std::size_t added = cluster.add();
  std::vector<std::pair<std::uint16_t, std::size_t>> moved;
  for (const std::uint16_t slot : slots()) {
    moved.emplace_back(slot, cluster.owner_of(slot));
    cluster.move(slot, moved.back().second, added);
    all.run_some();
  }
  all.run_on(1);
  BOOST_TEST(redis_client(cluster.node(added)).must("DBSIZE").integer > 50);
  for (const auto& [slot, from] : moved) {
    cluster.move(slot, added, from);
    all.run_some();
  }
  all.run_on(2);  // now the store knows the owners, too
  cluster.remove(added);
  all.run_on(2);
  compare();
  BOOST_TEST(all.done.unknown == 0);
  BOOST_TEST(all.done.redirected == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_mix_test
