// Random calls on a memcached server and on a memory store, under one clock: every field of every
// decision is the same, of reservations and of those that are given back, too. When a reservation
// has its turn is also checked against the written references, which share no code with the stores.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "check/detached_check.hpp"
#include "check/in_flight.hpp"
#include "limiter/limiter_impl.hpp"
#include "model/policy_shapes.hpp"
#include "model/trace_clock.hpp"
#include "support/fake_check.hpp"
#include "support/limiter_fixture.hpp"
#include "support/memcached_server.hpp"
#include "support/random_source.hpp"
#include "support/reservation_ledger.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"
#include "weir/weir.hpp"

namespace memcached_trace_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
using test::random_source;

constexpr std::int64_t day = 86'400'000'000;
constexpr std::chrono::microseconds longest_wait = 31 * 24h;
constexpr int traces = test::is_sanitized ? 8 : 80;  // for each kind of policy, an even number
constexpr int steps = 240;

struct tally {
  int calls = 0, refused = 0, settled = 0, cooling = 0, failed = 0;
  // reservations
  int at_once = 0, booked = 0, too_late = 0, cannot = 0;
  int given_back = 0, came_back = 0;  // how many of the former another request can use
  int left = 0;                       // waiters that have left their lines
};

std::ostream& operator<<(std::ostream& out, const tally& t) {
  return out << t.calls << " calls, " << t.refused << " refused, " << t.settled << " settled, "
             << t.cooling << " during a cool-down, " << t.failed
             << " failed alike; reservations: " << t.at_once << " at once, " << t.booked
             << " booked, " << t.too_late << " beyond max_wait, " << t.cannot << " not possible, "
             << t.given_back << " given back, of which " << t.came_back << " made room, and "
             << t.left << " waiters left";
}

/// A question for a reservation, at each store.
struct reservation {
  std::unique_ptr<test::fake_check> far, near;
  std::size_t number = 0;  // in the ledger, if there is one

  const decision& answer() const { return far->answer; }
  std::int64_t turn() const {
    const decision& d = answer();
    return (d.decided_at + d.delay).time_since_epoch().count();
  }
};

/// A limiter, at each store, and what is kept of its answers.
struct twins {
  using spec_ptr = std::shared_ptr<const detail::limiter_spec>;

  twins(const store& remote, const store& local, const std::string& name, const tiers& rules,
        const limiter_options& options)
      : far(remote, name, rules, options),
        near(local, name, rules, options),
        far_spec(std::make_shared<detail::limiter_impl>(remote.backend(), name, rules, options)),
        near_spec(std::make_shared<detail::limiter_impl>(local.backend(), name, rules, options)) {}

  const limiter far, near;
  const spec_ptr far_spec, near_spec;  // of equal limiters, for what no function of a limiter does
  decision kept, kept_near;            // of one request; only the receipts' ids differ
  std::int64_t kept_cost = 1;
  std::vector<reservation> booked;  // in the order in which they were made
};

struct fixture : test::limiter_fixture {
  test::memcached_server_process server;
  random_source random{test::run_seed(), 7400};
  std::int64_t now = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  std::function<time_point()> clock = [this] { return time_point(std::chrono::microseconds(now)); };
  store remote = make_memcached_store(io.get_executor(), options());
  store local = make_memory_store(io.get_executor(), {.clock = clock});
  const std::string subject = "a";
  std::optional<model::trace_clock> moves;
  tally total;
  int number = 0;

  memcached_options options() {
    memcached_options o = server.patient_options();
    o.max_clock_skew = {};
    o.clock = clock;
    return o;
  }

  /// A retry_after during a cool-down has random jitter.
  static decision without_jitter(decision d) {
    if (d.cooling_down) d.retry_after = {};
    return d;
  }

  void compare(const std::string& what, const error_code& got_ec, const decision& got,
               const error_code& expected_ec, const decision& expected) {
    ++total.calls;
    total.failed += expected_ec.failed() ? 1 : 0;
    BOOST_TEST_REQUIRE((got_ec == expected_ec),
                       what << ": " << got_ec.message() << ", not " << expected_ec.message());
    BOOST_TEST_REQUIRE((without_jitter(got) == without_jitter(expected)),
                       what << "\n  memory:    " << test::text_of(expected)
                            << "\n  memcached: " << test::text_of(got));
    total.cooling += got.cooling_down ? 1 : 0;
    moves->hear(without_jitter(got));
  }

  /// Makes the call on both limiters. The answer; nothing if both fail alike.
  template <class Call>
  decision both(twins& t, const std::string& what, Call&& call) {
    const test::outcome got = outcome_of([&](auto handler) { call(t.far, handler); });
    const test::outcome expected = outcome_of([&](auto handler) { call(t.near, handler); });
    compare(what, got.ec, got.d, expected.ec, expected.d);
    return got.d;
  }

  /// The same for a call that takes units, which a later one may settle.
  template <class Call>
  decision take(twins& t, const std::string& what, std::int64_t cost, Call&& call) {
    const decision d = both(t, what, [&](const limiter& l, auto handler) {
      call(l, [&, handler](error_code ec, decision answer) mutable {
        if (answer.allowed) (&l == &t.far ? t.kept : t.kept_near) = answer;
        handler(ec, answer);
      });
    });
    if (d.allowed) t.kept_cost = cost;
    return d;
  }

  /// The state, as far as an answer tells it.
  decision look(twins& t, const std::string& when) {
    return both(t, when, [&](const limiter& l, auto handler) { l.fetch(subject, handler); });
  }

  // ---- reservations

  /// Asks for a reservation as the line of a limiter does: the answer comes at once, however far
  /// ahead the reservation lies. No clock but the trace's own takes part.
  reservation reserve(twins& t, std::int64_t cost, std::int64_t max_wait) {
    const auto question = [&](const twins::spec_ptr& spec) {
      auto c = std::make_unique<test::fake_check>(spec, subject, cost, detail::check_kind::acquire);
      detail::flight_of(c->check()).from_queue = true;
      detail::as<detail::acquire_request>(c->check()).max_wait = std::min(
          longest_wait, std::chrono::microseconds(max_wait));
      return c;
    };
    reservation r{question(t.far_spec), question(t.near_spec)};
    for (test::fake_check* c : {r.far.get(), r.near.get()}) {
      c->check().limiter->store->start(*c);
    }
    test::run_until(io, [&] { return r.far->finished + r.near->finished == 2; });
    compare("reservation", r.far->ec, r.far->answer, r.near->ec, r.near->answer);
    const auto& far = detail::as<detail::acquire_request>(r.far->check());
    const auto& near = detail::as<detail::acquire_request>(r.near->check());
    // A state in there that was over may be gone at one of the stores.
    BOOST_TEST(far.found.size() == near.found.size());
    BOOST_TEST(far.pause.count() == near.pause.count());
    if (r.far->ec) return r;
    const decision& d = r.answer();
    (!d.allowed ? total.too_late : d.delay.count() > 0 ? total.booked : total.at_once) += 1;
    return r;
  }

  /// Gives one back, as the line of a limiter does for a waiter that leaves.
  void give_back(twins& t, std::size_t place) {
    const decision before = look(t, "before one is given back");
    const reservation r = std::move(t.booked[place]);
    t.booked.erase(t.booked.begin() + static_cast<std::ptrdiff_t>(place));
    for (test::fake_check* c : {r.far.get(), r.near.get()}) {
      detail::check& back = detail::make_give_back(*c);
      back.timeout = 50s;  // on a busy machine, too
      c->check().limiter->store->start(back);
    }
    // A subject's calls keep their order: this one finds it done.
    const decision after = look(t, "behind one that was given back");
    ++total.given_back;
    total.came_back += after.used < before.used || after.reset_after < before.reset_after ? 1 : 0;
  }

  /// The place of one to give back: one of the last, mostly.
  std::size_t some_place(const twins& t) {
    const auto count = static_cast<std::int64_t>(t.booked.size());
    return static_cast<std::size_t>(count - random.magnitude(count));
  }

  /// A waiter comes and leaves its line before its turn. Its turn has to be minutes away by the
  /// machine's clock, by which a line wakes its waiters.
  void leave_line(twins& t, std::int64_t cost) {
    test::cancellable_crowd waiters;
    for (const limiter* l : {&t.far, &t.near}) {
      l->acquire(subject, {.cost = cost, .max_wait = longest_wait, .timeout = 50s},
                 waiters.caller());
    }
    look(t, "behind a waiter");
    waiters.cancel_all();
    test::run_until_complete(io, waiters.c);
    const test::outcome &got = waiters.c[0], &expected = waiters.c[1];
    compare("waiter that leaves", got.ec, got.d, expected.ec, expected.d);
    total.left += got.ec == boost::asio::error::operation_aborted ? 1 : 0;
    look(t, "behind a waiter that has left");
  }

  void acquire(twins& t, std::int64_t cost, std::int64_t span, bool cools) {
    // A limiter remembers a cool-down by the machine's clock, so its line has no place there.
    if (!cools && random.one_in(4)) {
      take(t, "acquire", cost, [&](const limiter& l, auto handler) {
        l.acquire(subject, {.cost = cost, .max_wait = 0s, .timeout = 50s}, handler);
      });
    }
    if (!t.far_spec->can_book) {
      total.cannot += 1;
      return;
    }
    const std::int64_t possible = std::min(cost, t.far_spec->ceiling);
    const std::int64_t max_wait = random.one_in(4)   ? random.between(0, 3)
                                  : random.one_in(2) ? random.magnitude(20 * span)
                                                     : random.between(0, 20 * span);
    reservation r = reserve(t, possible, max_wait);
    if (!r.answer().allowed) return;
    const bool is_far_ahead = r.answer().delay > 2min;
    t.booked.push_back(std::move(r));
    if (is_far_ahead && !cools) leave_line(t, possible);
  }

  // ---- traces

  /// The clock never steps back: each store drops a state that is over at a time of its own, so a
  /// step back by more than the grace would tell the stores apart.
  void advance() {
    moves->advance();
    now = std::max(now, moves->now());
  }

  void step(twins& t, std::int64_t most, std::int64_t span, bool cools) {
    const std::int64_t cost = random.one_in(3) ? random.magnitude(most) : 1;
    const std::int64_t chance = random.between(0, 19);
    if (chance < 2) {
      both(t, "fetch",
           [&](const limiter& l, auto handler) { l.fetch(subject, {.cost = cost}, handler); });
    } else if (chance < 3) {
      // Each store's own decision: only their receipts' ids differ.
      if (!t.kept.allowed) return;
      // Twice at one instant: a store forgets later that it has done it.
      for (int times = 0; times < 2; ++times) {
        const std::int64_t actual = random.between(0, 2 * t.kept_cost);
        both(t, "settle", [&](const limiter& l, auto handler) {
          l.settle(subject, &l == &t.far ? t.kept : t.kept_near, std::min(actual, max_units),
                   handler);
        });
        ++total.settled;
      }
      t.kept.allowed = false;
    } else if (chance < 4) {
      if (!random.one_in(8)) return;
      both(t, "reset", [&](const limiter& l, auto handler) { l.reset(subject, handler); });
    } else if (chance < 5) {
      if (!cools || !random.one_in(4)) return;
      both(t, "cool_down", [&](const limiter& l, auto handler) {
        l.cool_down(subject, std::chrono::microseconds(1 + span / 4), handler);
      });
    } else if (chance < 9) {
      acquire(t, cost, span, cools);
    } else if (chance < 11) {
      if (!t.booked.empty()) give_back(t, some_place(t));
    } else {
      const decision d = take(t, "record", cost, [&](const limiter& l, auto handler) {
        l.record(subject, {.cost = cost}, handler);
      });
      total.refused += d.allowed ? 0 : 1;
    }
    // The old ones have had their turns.
    if (t.booked.size() > 20) t.booked.erase(t.booked.begin());
  }

  twins next_twins(const tiers& rules, bool cools) {
    return twins(remote, local, "trace" + std::to_string(++number), rules, {.cool_downs = cools});
  }

  void trace(const tiers& rules, std::int64_t most, std::int64_t span, bool cools) {
    twins t = next_twins(rules, cools);
    const auto start = now;
    moves.emplace(random, now, span);
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << t.far.resource() << " "
                                         << test::text_of(*rules.begin()) << " from " << start) {
      for (int i = 0; i < steps; ++i) {
        advance();
        step(t, most, span, cools);
      }
    }
    now = start;
  }

  /// One in which a few requests meet the limit.
  template <class Policy>
  Policy small_policy() {
    Policy p = model::random_policy<Policy>(random);
    const std::int64_t size = random.magnitude(20);
    if constexpr (requires { p.limit; }) p.limit = size;
    if constexpr (requires { p.count_refused; }) p.count_refused = false;
    if constexpr (requires { p.capacity; }) p.capacity = std::min(p.capacity, size);
    if constexpr (requires { p.burst; }) p.burst = std::min(p.burst, size);
    return p;
  }

  /// Half of them with small policies.
  template <class Policy>
  void traces_of(const char* name) {
    total = {};
    for (int i = 0; i < traces;) {
      const bool is_small = i % 2 == 0;
      const Policy p = is_small ? small_policy<Policy>() : model::random_policy<Policy>(random);
      const std::int64_t span = model::span_of(p);
      if (span > day) continue;  // memcached's own clock, which is real, ends what is longer
      if constexpr (std::is_same_v<Policy, sliding_log>) {
        if (p.limit == unlimited && p.resolution.count() == 0) continue;
      }
      const std::int64_t most = is_small ? 5 : model::most_of(p);
      trace(tiers(p), std::min<std::int64_t>(most, 1'000'000), span, false);
      ++i;
    }
    BOOST_TEST_MESSAGE(name << ": " << total);
    BOOST_TEST(total.refused > total.calls / 100);
    BOOST_TEST(total.settled > traces);
    BOOST_TEST(total.at_once > traces);
    BOOST_TEST(total.booked > traces / 4);
    BOOST_TEST(total.too_late > traces / 4);
    BOOST_TEST(total.given_back > traces);
    BOOST_TEST(total.came_back > traces / 8);
  }

  /// Reservations and returns only: the written references know when each has its turn.
  template <class Policy>
  void lines_of(const char* name) {
    test::reservation_ledger::totals sum;
    for (int i = 0; i < traces / 2;) {
      const policy p = small_policy<Policy>();
      const std::int64_t span = model::span_of(p);
      if (span > day) continue;
      twins t = next_twins(tiers(p), false);
      const auto start = now;
      moves.emplace(random, now, span);
      test::reservation_ledger ledger;
      BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << t.far.resource() << " "
                                           << test::text_of(p) << " from " << start) {
        for (int n = 0; n < steps; ++n) {
          advance();
          std::erase_if(t.booked, [&](const reservation& r) { return r.turn() <= now; });
          if (!t.booked.empty() && random.one_in(3)) {
            const std::size_t place = some_place(t);
            ledger.give_back(now, t.booked[place].number);
            give_back(t, place);
          } else {
            ask(t, ledger, span);
          }
        }
        const policy all[] = {p};
        try {
          sum += ledger.check(all);
        } catch (const std::exception& e) {
          BOOST_ERROR(e.what());
        }
      }
      now = start;
      ++i;
    }
    BOOST_TEST_MESSAGE(name << ": " << sum.text());
    BOOST_TEST(sum.at_once > traces);
    BOOST_TEST(sum.booked > traces);
    BOOST_TEST(sum.refused > traces);
    BOOST_TEST(sum.given_back > traces);
  }

  void ask(twins& t, test::reservation_ledger& ledger, std::int64_t span) {
    const std::int64_t most = t.far_spec->ceiling;
    const std::int64_t cost = random.one_in(2) ? 1 : random.magnitude(most);
    const std::int64_t max_wait = random.one_in(8)
                                      ? random.between(0, 3)
                                      : std::min(random.magnitude(10 * span), 30 * day);
    reservation r = reserve(t, cost, max_wait);
    const decision& d = r.answer();
    const std::int64_t wait = d.allowed ? d.delay.count() : d.retry_after.count() + max_wait;
    r.number = ledger.ask({now, cost, max_wait, d.allowed, now + wait});
    if (d.allowed) t.booked.push_back(std::move(r));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memcached_trace_suite, fixture)

BOOST_AUTO_TEST_CASE(every_policy_decides_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  traces_of<fixed_window>("fixed_window");
  traces_of<sliding_log>("sliding_log");
  traces_of<sliding_window>("sliding_window");
  traces_of<token_bucket>("token_bucket");
  traces_of<gcra>("gcra");
  traces_of<leaky_bucket>("leaky_bucket");
}

BOOST_AUTO_TEST_CASE(waiters_leave_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  const policy policies[] = {fixed_window{3, 1h},   sliding_log{3, 1h},
                             sliding_window{3, 1h}, token_bucket{3, per_hour(3)},
                             gcra{per_hour(3), 3},  leaky_bucket{3, per_hour(3)}};
  for (const policy& p : policies) {
    total = {};
    for (int i = 0; i < traces / 2; ++i) trace(tiers(p), 3, model::span_of(p), false);
    BOOST_TEST_MESSAGE(test::text_of(p) << ": " << total);
    BOOST_TEST(total.booked > traces / 2);
    BOOST_TEST(total.left > traces / 4);
    BOOST_TEST(total.came_back > traces / 4);
  }
}

BOOST_AUTO_TEST_CASE(reservations_are_those_of_the_written_references) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  lines_of<fixed_window>("fixed_window");
  lines_of<sliding_log>("sliding_log");
  lines_of<sliding_window>("sliding_window");
  lines_of<token_bucket>("token_bucket");
  lines_of<gcra>("gcra");
  lines_of<leaky_bucket>("leaky_bucket");
}

BOOST_AUTO_TEST_CASE(tiers_and_cool_downs_decide_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  for (int i = 0; i < 2 * traces;) {
    const policy one = model::random_policy_that_combines(random);
    const policy two = i % 2 == 0 ? policy(small_policy<token_bucket>())
                                  : model::random_policy_that_combines(random);
    const std::int64_t span = std::max(model::span_of(one), model::span_of(two));
    if (span > day) continue;
    const std::int64_t most = std::min(model::most_of(one), model::most_of(two));
    trace(tiers(one, two), std::min<std::int64_t>(most, i % 2 == 0 ? 5 : 1000), span, true);
    ++i;
  }
  BOOST_TEST_MESSAGE(total);
  BOOST_TEST(total.refused > total.calls / 100);
  BOOST_TEST(total.cooling > 10);
  BOOST_TEST(total.booked > traces);
  BOOST_TEST(total.given_back > traces);
  BOOST_TEST(total.came_back > traces / 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_trace_test
