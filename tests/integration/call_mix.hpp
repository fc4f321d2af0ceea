#pragma once

#include "cluster_fixture.hpp"
#include "support/test.hpp"

/// Callers that make all kinds of calls at once on a Redis Cluster, and know what must be counted.
namespace weir::test::mixed {

/// Nothing returns or is refused during a test.
inline weir::policy policy(std::size_t i) {
  constexpr std::int64_t limit = 50'000;
  const weir::policy all[] = {weir::token_bucket{.capacity = limit, .refill = weir::per_hour(1)},
                              weir::gcra{.rate = weir::per_hour(1), .burst = limit},
                              weir::fixed_window{.limit = limit, .window = 24h},
                              weir::sliding_window{.limit = limit, .window = 24h},
                              weir::sliding_log{.limit = limit, .window = 24h},
                              weir::leaky_bucket{.capacity = limit, .leak = weir::per_hour(1)}};
  return all[i];
}
inline constexpr std::size_t policies = 6, waiting_policies = 5;  // a leaky bucket delays acquire()

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
    std::int64_t unknown = 0, late = 0;
  };
  mix(asio::io_context& context, weir::store on, std::size_t count);
  ~mix();

  /// An error that the event explains: counted, or possibly counted, or not at all.
  bool failed(error_code ec, const char* call) {
    if (!ec) return false;
    BOOST_TEST_MESSAGE(call << ": " << ec.message());
    if (ec == weir::condition::may_have_counted) {
      ++done.unknown;
    } else {
      ++done.late;
      BOOST_CHECK_MESSAGE(
          outage && (ec == error::timed_out || ec == error::connection_refused ||
                     ec == error::cluster_down || ec == error::read_only ||
                     ec == error::slot_migrating || ec == error::too_many_redirects),
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
    run_until(io, [&] { return turns >= mark + 40; });
  }
  void end() {
    stop = true;
    run_until(io, [&] { return running == 0; });
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
    return group.empty() ? test::slot_of(resource, subject) : weir::redis::slot_of_tag(group);
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

inline mix::mix(asio::io_context& context, weir::store on, std::size_t count)
    : io(context), store(on) {
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
inline mix::~mix() = default;

/// Settles a decision: again after an error, because it then counts once.
inline asio::awaitable<void> mix::give_back(book& b, decision d, std::int64_t cost,
                                            std::int64_t actual) {
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

inline asio::awaitable<void> mix::record_and_settle(place& p) {
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

inline asio::awaitable<void> mix::acquire_and_refund(place& p) {
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

inline asio::awaitable<void> mix::cool_down(place& p) {
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

inline asio::awaitable<void> mix::enter_and_leave(place& p) {
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
inline void mix::acquire_and_cancel(place& p) {
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

inline void mix::run_on(std::int64_t times) {
  for (auto& p : places) std::copy(std::begin(p->turns), std::end(p->turns), p->marks);
  run_until(io, [&] {
    for (auto& p : places) {
      for (int i = 0; i < 5; ++i) {
        if (p->turns[i] < p->marks[i] + times) return false;
      }
    }
    return true;
  });
}

}  // namespace weir::test::mixed
