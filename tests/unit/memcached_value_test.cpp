// The value in which memcached keeps a subject, and what checks make of it.
#include "memcached_item.hpp"
#include "model/kernel_subject.hpp"
#include "support/random_source.hpp"

namespace memcached_value_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check_kind;
using weir::detail::lease_act;
using weir::detail::settle_cause;
using item = memcached_item;
using verdict = item::verdict;

constexpr std::int64_t now = item::now;

BOOST_AUTO_TEST_SUITE(memcached_value_suite)

// The kernel that never left memory, and the one whose state goes through bytes at each step.
BOOST_AUTO_TEST_CASE(a_state_in_bytes_decides_as_one_in_memory) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  random_source random(seed, 7200);
  int refused = 0;
  for (const policy& p : limits_of_three) {
    for (int trace = 0; trace < 20; ++trace) {
      const core_ptr core = make_core("r", p);
      weir::model::kernel_subject reference(p);
      item stored;
      std::int64_t at = now;
      for (int i = 0; i < 200; ++i) {
        at += random.one_in(9) ? -random.magnitude(20'000'000) : random.magnitude(4'000'000);
        const std::int64_t cost = random.between(1, 3);
        const decision expected = reference.record(at, cost);
        BOOST_TEST_REQUIRE((stored.record(core, at, cost) == expected), "WEIR_TEST_SEED=" << seed);
        refused += expected.allowed ? 0 : 1;
      }
    }
  }
  BOOST_TEST(refused > 1000);
}

// Reservations, and their return, with the state going through bytes at each step.
BOOST_AUTO_TEST_CASE(reservations_in_bytes_are_as_in_memory) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  random_source random(seed, 7202);
  int ahead = 0, returned = 0;
  for (const policy& p : limits_of_three) {
    const core_ptr core = make_core("r", p);
    if (!core->can_settle) continue;
    for (int trace = 0; trace < 20; ++trace) {
      weir::model::kernel_subject reference(p);
      item stored;
      struct reserved {
        decision said;
        std::vector<std::int64_t> found;
        weir::model::kernel_subject::turn turn;
      };
      std::vector<reserved> all;
      std::int64_t at = now;
      for (int i = 0; i < 60; ++i) {
        at += random.magnitude(4'000'000);
        if (!all.empty() && random.one_in(3)) {
          const reserved last = random.one_in(2) ? all.back() : random.pick(all);
          fake_check back(core, "a", last.turn.cost, settle_cause::give_back);
          auto& asked = weir::detail::as<weir::detail::settle_request>(back.check());
          asked.about = last.said;
          asked.found = last.found;
          asked.id = static_cast<std::uint64_t>(1000 * trace + i + 1);
          stored.run({&back}, at);
          BOOST_TEST_REQUIRE(!back.ec.failed());
          reference.give_back(at, last.turn);
          all.clear();
          ++returned;
          continue;
        }
        const std::int64_t cost = random.between(1, 3);
        fake_check acquire(core, "a", cost, check_kind::acquire);
        auto& asked = weir::detail::as<weir::detail::acquire_request>(acquire.check());
        asked.max_wait = 15s;
        stored.run({&acquire}, at);
        const auto turn = reference.book(at, 15'000'000, cost);
        BOOST_TEST_REQUIRE((acquire.answer == turn.said), "WEIR_TEST_SEED=" << seed);
        BOOST_TEST_REQUIRE((asked.found == turn.known.found), "WEIR_TEST_SEED=" << seed);
        if (acquire.answer.allowed) all.push_back({acquire.answer, asked.found, turn});
        ahead += acquire.answer.allowed && acquire.answer.delay.count() > 0 ? 1 : 0;
      }
    }
  }
  BOOST_TEST(ahead > 500);
  BOOST_TEST(returned > 500);
}

BOOST_AUTO_TEST_CASE(a_refused_check_writes_nothing) {
  for (const policy& p : limits_of_three) {
    const core_ptr core = make_core("r", p);
    item stored;
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST(stored.record(core).allowed);
      BOOST_TEST((stored.last == verdict::store));
    }
    const bool counts = core->counts_refused;
    BOOST_TEST(!stored.record(core).allowed);
    BOOST_TEST((stored.last == (counts ? verdict::store : verdict::unchanged)));
    fake_check fetch(core, "a", 1, check_kind::fetch);
    stored.run({&fetch});
    BOOST_TEST(!fetch.answer.allowed);
    BOOST_TEST((stored.last == verdict::unchanged));
  }
}

BOOST_AUTO_TEST_CASE(checks_together_are_as_checks_one_by_one) {
  for (const policy& p : limits_of_three) {
    const core_ptr core = make_core("r", p);
    item together, single;
    std::vector<std::unique_ptr<fake_check>> checks;
    std::vector<fake_check*> all;
    for (int i = 0; i < 5; ++i) {
      checks.push_back(std::make_unique<fake_check>(core, "a"));
      all.push_back(checks.back().get());
    }
    together.run(all);
    for (fake_check* c : all) BOOST_TEST((c->answer == single.record(core)));
    BOOST_TEST((together.bytes == single.bytes));
  }
}

// Limiters of one resource share a subject's value: tiers, other policies, the cool-down.
BOOST_AUTO_TEST_CASE(one_value_has_all_tiers_of_a_subject) {
  const core_ptr both = make_core(
      "r", tiers(fixed_window{.limit = 2, .window = 10s}, gcra{.rate = {1, 1s}, .burst = 5}),
      {.cool_downs = true});
  const core_ptr window = make_core("r", fixed_window{.limit = 2, .window = 10s});
  item stored;
  BOOST_TEST(stored.record(both).allowed);
  const decision second = stored.record(window);
  BOOST_TEST(second.allowed);
  BOOST_TEST(second.remaining == 0);
  const decision third = stored.record(both);
  BOOST_TEST(!third.allowed);
  BOOST_TEST(third.tier == 0);

  fake_check pause(both, "a", 3'000'000, check_kind::cool_down);
  stored.run({&pause}, now + 10'000'000);
  BOOST_TEST((stored.last == verdict::store));
  BOOST_TEST(stored.record(both, now + 11'000'000).cooling_down);
  BOOST_TEST(stored.record(window, now + 11'000'000).allowed);

  fake_check reset(both, "a", 0, check_kind::reset);
  stored.run({&reset}, now + 11'000'000);
  BOOST_TEST((stored.last == verdict::erase));
  BOOST_TEST(stored.bytes.empty());
}

// A check of a shorter plan ended the state with its own window: the longer plan let all of its
// limit pass again.
BOOST_AUTO_TEST_CASE(a_shorter_plan_keeps_the_end_that_a_longer_plan_has_set) {
  const std::pair<policy, policy> pairs[] = {
      {fixed_window{100, 1s}, fixed_window{2, 1h}},
      {sliding_window{100, 1s}, sliding_window{2, 1h}},
      {sliding_log{100, 1s}, sliding_log{2, 1h}},
      {sliding_log{100, 1s, 50ms}, sliding_log{2, 1h, 50ms}},
  };
  for (const auto& [shorter, longer] : pairs) {
    item stored;
    stored.record(make_core("r", longer));
    const std::int64_t end = stored.ends;
    BOOST_TEST(end > now + 1'000'000'000);
    stored.record(make_core("r", shorter), now + 1000);
    BOOST_TEST(stored.ends >= end);
  }
  // A refund of a window that is over, for the shorter plan, ended the state with that window.
  item refunded;
  refunded.record(make_core("r", fixed_window{2, 1h}));
  const core_ptr brief = make_core("r", fixed_window{100, 1s});
  weir::detail::settle_request late;
  late.about = refunded.record(brief, now + 1000);
  late.id = 77;
  fake_check too_late(brief, "a", 1, check_kind::settle);
  weir::detail::as<weir::detail::settle_request>(too_late.check()) = late;
  refunded.run({&too_late}, now + 5'000'000);
  BOOST_TEST(refunded.ends == now + 3'600'000'000);
  BOOST_TEST(refunded.record(make_core("r", fixed_window{9, 1h}), now + 9'000'000).used == 3);
  // An emptied state is not kept for the sake of an end that it had.
  const core_ptr core = make_core("r", fixed_window{2, 1h});
  item emptied;
  weir::detail::settle_request asked;
  asked.about = emptied.record(core);
  asked.id = 78;
  fake_check refund(core, "a", 1, check_kind::settle);
  weir::detail::as<weir::detail::settle_request>(refund.check()) = asked;
  emptied.run({&refund});
  BOOST_TEST(refund.answer.used == 0);
}

// The window that was found before the reservation was over for the shorter plan by then: the state
// left the value.
BOOST_AUTO_TEST_CASE(a_reservation_that_a_shorter_plan_gives_back_leaves_a_longer_plans_count) {
  const std::pair<policy, policy> pairs[] = {
      {fixed_window{100, 1s}, fixed_window{9, 1h}},
      {sliding_window{100, 1s}, sliding_window{9, 1h}},
  };
  for (const auto& [shorter, longer] : pairs) {
    const core_ptr lasting = make_core("r", longer);
    const core_ptr brief = make_core("r", tiers(shorter, gcra{{1, 60s}, 3}));
    const std::int64_t start = now / 3'600'000'000 * 3'600'000'000;
    item stored;
    stored.record(brief, start, 3);
    fake_check forget(lasting, "a", 0, check_kind::reset);
    stored.run({&forget}, start);
    BOOST_TEST(stored.record(lasting, start, 3).used == 3);
    fake_check acquire(brief, "a", 1, check_kind::acquire);
    auto& asked = weir::detail::as<weir::detail::acquire_request>(acquire.check());
    asked.max_wait = 1h;
    stored.run({&acquire}, start);
    BOOST_TEST(acquire.answer.allowed);
    BOOST_TEST((acquire.answer.delay == 60s));
    fake_check back(brief, "a", 1, settle_cause::give_back);
    auto& returned = weir::detail::as<weir::detail::settle_request>(back.check());
    returned.about = acquire.answer;
    returned.found = asked.found;
    returned.id = 1;
    stored.run({&back}, start + 5'000'000);
    BOOST_TEST(!back.ec.failed());
    BOOST_TEST(stored.record(lasting, start + 6'000'000).used == 4);
  }
}

BOOST_AUTO_TEST_CASE(what_no_longer_matters_leaves_the_value) {
  const core_ptr window = make_core("r", fixed_window{.limit = 2, .window = 10s});
  const core_ptr bucket = make_core("r", gcra{.rate = {1, 1h}, .burst = 5});
  item stored;
  stored.record(window);
  const std::size_t alone = stored.bytes.size();
  stored.record(bucket);
  BOOST_TEST(stored.ends == now + 3'600'000'000);
  BOOST_TEST(stored.bytes.size() > alone);
  stored.record(bucket, now + 13'000'000);  // the window and its grace are over
  item other;
  other.record(bucket);
  BOOST_TEST(stored.bytes.size() == other.bytes.size());
}

BOOST_AUTO_TEST_CASE(a_settlement_is_done_once) {
  const core_ptr core = make_core("r", fixed_window{.limit = 5, .window = 10s});
  item stored;
  const decision d = stored.record(core, now, 5);
  weir::detail::settle_request asked;
  asked.about = d;
  asked.id = 77;
  for (const bool first : {true, false}) {
    fake_check refund(core, "a", 5, check_kind::settle);
    weir::detail::as<weir::detail::settle_request>(refund.check()) = asked;
    stored.run({&refund});
    BOOST_TEST(refund.answer.allowed == first);
    BOOST_TEST(refund.answer.used == 0);
    BOOST_TEST((stored.last == (first ? verdict::store : verdict::unchanged)));
  }
  // The id is kept for a minute, the window is over before.
  fake_check late(core, "a", 0, check_kind::settle);
  weir::detail::as<weir::detail::settle_request>(late.check()) = asked;
  stored.run({&late}, now + 59'000'000);
  BOOST_TEST(!late.answer.allowed);
}

// A batch that does not fit is tried again with an eighth of its checks: what fits is counted, the
// rest is not.
BOOST_AUTO_TEST_CASE(a_state_that_grows_too_large_is_an_error) {
  const core_ptr core = make_core("r", sliding_log{.limit = 100'000, .window = 1h});
  item stored;
  std::int64_t counted = 0;
  error_code ec;
  for (std::int64_t at = now; !ec && counted < 1000; at += 1000) {
    fake_check c(core, "a");
    stored.run({&c}, at, 1000);
    ec = c.ec;
    counted += c.answer.allowed && !ec ? 1 : 0;
    BOOST_TEST_REQUIRE(stored.bytes.size() <= 1000u);
  }
  WEIR_TEST_ERROR(ec, error::state_too_large);
  BOOST_TEST(counted > 200);
  BOOST_TEST((stored.last == verdict::unchanged));

  // Costs of their own time would need an entry each, those of one time share one.
  fake_check a(core, "a"), b(core, "a"), reset(core, "a", 0, check_kind::reset);
  stored.run({&a, &b, &reset}, now + 2'000'000, 1000);
  BOOST_TEST(stored.covered == 3u);
  BOOST_TEST((stored.last == verdict::erase));

  fake_check settled(core, "a", 0, check_kind::settle);
  weir::detail::as<weir::detail::settle_request>(settled.check()).id = 5;
  item small;
  small.record(core);
  small.run({&settled}, now, 10);
  WEIR_TEST_ERROR(settled.ec, error::settlements_full);
}

// Each of a thousand callers of a full log had a read and ten attempts of its own, and the
// connection did nothing else.
BOOST_AUTO_TEST_CASE(equal_checks_of_a_full_log_fail_together) {
  const core_ptr core = make_core("r", sliding_log{.limit = 100'000, .window = 1h});
  item stored;
  const auto is_full = [&](std::int64_t at) {
    fake_check c(core, "a");
    stored.run({&c}, at, 1000);
    return c.ec.failed();
  };
  std::int64_t at = now;
  while (!is_full(at)) at += 1000;
  fake_check first(core, "a"), other(core, "a", 2), second(core, "a");
  stored.run({&first, &other, &second}, at, 1000);
  BOOST_TEST(stored.covered == 2u);
  BOOST_TEST((stored.last == verdict::unchanged));
  for (fake_check* c : {&first, &second}) WEIR_TEST_ERROR(c->ec, error::state_too_large);
  WEIR_TEST_ERROR(other.ec, error_code());
  fake_check before(core, "a"), looks(core, "a", 1, check_kind::fetch), behind(core, "a");
  stored.run({&before, &looks, &behind}, at, 1000);
  BOOST_TEST(stored.covered == 2u);
  BOOST_TEST(!looks.ec.failed());  // it comes next

  // More than a batch takes, and what comes behind a reset finds the log empty.
  std::deque<fake_check> many;
  std::vector<fake_check*> line;
  for (int i = 0; i < 1500; ++i) line.push_back(&many.emplace_back(core, "a"));
  fake_check reset(core, "a", 0, check_kind::reset);
  line.insert(line.end() - 10, &reset);
  stored.run(line, at, 1000);
  BOOST_TEST(stored.covered == 1000u);
  stored.run({line.begin() + 1000, line.end()}, at, 1000);
  BOOST_TEST(stored.covered == 501u);
  BOOST_TEST((stored.last == verdict::store));
  WEIR_TEST_ERROR(line.back()->ec, error_code());
}

// The ids of settled receipts filled the value, and then no cool-down could be set for hours.
BOOST_AUTO_TEST_CASE(settlements_leave_room_for_a_cool_down) {
  const core_ptr core = make_core("r", fixed_window{.limit = 1000, .window = 1h},
                                  {.cool_downs = true});
  item stored;
  stored.record(core);
  error_code ec;
  std::uint64_t id = 0;
  while (!ec) {
    fake_check settled(core, "a", 0, check_kind::settle);
    weir::detail::as<weir::detail::settle_request>(settled.check()).id = ++id;
    stored.run({&settled}, now, 1000);
    ec = settled.ec;
    BOOST_TEST_REQUIRE(id < 100u);
  }
  WEIR_TEST_ERROR(ec, error::settlements_full);
  BOOST_TEST(id > 40u);
  fake_check pause(core, "a", 1'000'000, check_kind::cool_down);
  stored.run({&pause}, now, 1000);
  WEIR_TEST_ERROR(pause.ec, error_code());
}

BOOST_AUTO_TEST_CASE(leases_come_and_go) {
  const core_ptr gate = make_gate();
  item stored;
  fake_check one(gate, "a", 101, lease_act::enter), two(gate, "a", 102, lease_act::enter),
      three(gate, "a", 103, lease_act::enter);
  stored.run({&one, &two, &three});
  BOOST_TEST(one.answer.allowed);
  BOOST_TEST(two.answer.allowed);
  BOOST_TEST(!three.answer.allowed);
  fake_check renew(gate, "a", 101, lease_act::renew), leave(gate, "a", 102, lease_act::leave);
  stored.run({&renew, &leave}, now + 5'000'000);
  BOOST_TEST(renew.answer.allowed);
  BOOST_TEST(leave.answer.allowed);
  stored.run({&three}, now + 12'000'000);
  BOOST_TEST(three.answer.allowed);
  BOOST_TEST(three.answer.used == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_value_test
