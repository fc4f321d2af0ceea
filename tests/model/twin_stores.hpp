#pragma once

#include <ostream>

#include "check/give_back.hpp"
#include "limiter/limiter_impl.hpp"
#include "model/trace_clock.hpp"
#include "support/fake_check.hpp"
#include "support/limiter_fixture.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

/// Calls that are made at a memcached store and at a memory store, whose answers must be equal.
namespace weir::model::twin_stores {

using namespace std::chrono_literals;
using test::random_source;

inline constexpr std::chrono::microseconds longest_wait = 31 * 24h;

struct tally {
  int calls = 0, refused = 0, settled = 0, cooling = 0, failed = 0;
  // reservations
  int at_once = 0, reserved = 0, too_late = 0, cannot = 0;
  int given_back = 0, came_back = 0;  // how many of the former another request can use
  int left = 0;                       // waiters that have left their lines
};

inline std::ostream& operator<<(std::ostream& out, const tally& t) {
  return out << t.calls << " calls, " << t.refused << " refused, " << t.settled << " settled, "
             << t.cooling << " during a cool-down, " << t.failed
             << " failed alike; reservations: " << t.at_once << " at once, " << t.reserved
             << " reserved, " << t.too_late << " beyond max_wait, " << t.cannot << " not possible, "
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
  std::vector<reservation> reserved;  // in the order in which they were made
};

/// A memcached and a memory store under one clock.
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
  std::optional<trace_clock> moves;
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
      c->check().flight.is_internal = true;
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
    BOOST_TEST((far.cool_down_left == near.cool_down_left));
    if (r.far->ec) return r;
    const decision& d = r.answer();
    (!d.allowed ? total.too_late : d.delay.count() > 0 ? total.reserved : total.at_once) += 1;
    return r;
  }

  /// Gives one back, as the line of a limiter does for a waiter that leaves.
  void give_back(twins& t, std::size_t place) {
    const decision before = look(t, "before one is given back");
    const reservation r = std::move(t.reserved[place]);
    t.reserved.erase(t.reserved.begin() + static_cast<std::ptrdiff_t>(place));
    for (test::fake_check* c : {r.far.get(), r.near.get()}) {
      detail::check& back = detail::make_give_back(test::taken_by(*c));
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
    const auto count = static_cast<std::int64_t>(t.reserved.size());
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
    if (!t.far_spec->can_settle) {
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
    t.reserved.push_back(std::move(r));
    if (is_far_ahead && !cools) leave_line(t, possible);
  }
};

}  // namespace weir::model::twin_stores
