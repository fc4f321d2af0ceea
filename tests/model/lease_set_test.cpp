// The kernel of a gate: C++, its script in a real server, and a plain reference agree on every
// field of every decision, on which leases are in afterwards, and on the TTL.
#include "model/joint_scripts.hpp"
#include "policy/kernel.hpp"
#include "support/random_source.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace lease_set_test {

using namespace weir;
using namespace weir::test;
using policies::lease_set;
using act = lease_set::act;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

/// A lease's name, and when it lapses.
using who_is_in = std::map<std::string, std::int64_t>;

struct gate {
  std::int64_t limit, length, base;
  lease_set kernel(act what) const { return {limit, length, base, what}; }
  std::string name(std::int64_t number) const {
    return std::to_string(base) + ":" + std::to_string(number) + ":" + std::to_string(length);
  }
};

std::int64_t length_in(const std::string& name) {
  return std::stoll(name.substr(name.rfind(':') + 1));
}

/// The rules, once more and in the plainest words.
struct reference {
  who_is_in in;

  decision look(const gate& g, std::int64_t now, act what, const std::string& name) const {
    std::vector<std::int64_t> ends;
    for (const auto& [ignored, until] : in) {
      if (until > now) ends.push_back(until);
    }
    std::sort(ends.begin(), ends.end());
    const auto count = static_cast<std::int64_t>(ends.size());
    const auto own = in.find(name);
    const bool inside = own != in.end() && own->second > now;
    const auto left = [&](std::int64_t until) {
      return std::chrono::microseconds(std::min(until - now, lease_set::longest));
    };
    decision d;
    d.allowed = what == act::enter ? count < g.limit && !inside : inside;
    d.limit = g.limit;
    d.used = count;
    d.remaining = std::max<std::int64_t>(0, g.limit - count);
    if (!d.allowed && count >= g.limit) {
      d.retry_after = left(ends[static_cast<std::size_t>(count - g.limit)]);
    }
    if (count > 0) d.reset_after = left(ends.back());
    d.decided_at = policies::to_time_point(now);
    return d;
  }

  decision record(const gate& g, std::int64_t now, act what, const std::string& name) {
    std::erase_if(in, [&](const auto& l) { return l.second <= now; });
    const auto last = std::max_element(in.begin(), in.end(), [](const auto& a, const auto& b) {
      return a.second < b.second || (a.second == b.second && a.first < b.first);
    });
    if (last != in.end() && last->second > now + std::max(g.length, length_in(last->first))) {
      for (auto& [who, until] : in) {
        if (until > now + g.length) until = std::min(until, now + length_in(who));
      }
    }
    const bool allowed = look(g, now, what, name).allowed;
    // The script replies with what it found: which is the last after one has left, that does not
    // say.
    const auto last_before = look(g, now, what, name).reset_after;
    if (allowed && what == act::leave) in.erase(name);
    if (allowed && what != act::leave) in[name] = now + g.length;
    decision d = look(g, now, what, name);
    d.allowed = allowed;
    if (allowed) d.retry_after = {};
    if (allowed && what == act::leave && !in.empty()) d.reset_after = last_before;
    return d;
  }
};

struct fixture {
  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};
  model::joint_scripts script{client};

  /// The three of them; they must agree.
  decision ask(const gate& g, act what, std::int64_t number, bool looks = false) {
    const lease_set kernel = g.kernel(what);
    const decision expected = looks ? plain.look(g, now, what, g.name(number))
                                    : plain.record(g, now, what, g.name(number));
    const decision here = looks ? kernel.fetch(state, now, number)
                                : kernel.record(state, now, number);
    agree("C++", expected, here);

    script.set_clock(now);
    const redis::call_tier tiers[] = {{kernel, number}};
    const std::int64_t count = looks ? 0 : 1;
    const auto fields = script.run(tiers, std::span(&key, 1), std::span(&count, 1), false);
    lease_set::summary summary;
    BOOST_TEST_REQUIRE(lease_set::restore(std::span(fields).subspan(1), summary));
    agree("Lua", expected,
          looks ? kernel.fetch(summary, now, number) : kernel.record(summary, now, number));
    return here;
  }

  void agree(const char* who, const decision& expected, const decision& got) {
    if (got == expected) return;
    BOOST_FAIL("WEIR_TEST_SEED=" << test::run_seed() << ", step " << steps << ", " << who
                                 << "\n  expected: " << test::text_of(expected)
                                 << "\n  got:      " << test::text_of(got));
  }

  /// The leases that are in, in all three, lapsed ones aside; and that the key lives as long as
  /// they do.
  void compare_states() {
    const auto live = [&](who_is_in all) {
      std::erase_if(all, [&](const auto& l) { return l.second <= now; });
      return all;
    };
    who_is_in here, there;
    for (const lease_set::lease& l : state.leases) {
      here[gate{0, l.length, l.base}.name(l.number)] = l.until;
    }
    const test::reply r = client.must("ZRANGE", key, 0, -1, "WITHSCORES");
    for (std::size_t i = 0; i + 1 < r.children.size(); i += 2) {
      there[r.children[i].text] = static_cast<std::int64_t>(std::stod(r.children[i + 1].text));
    }
    const bool same = live(here) == live(plain.in) && live(there) == live(plain.in);
    BOOST_TEST_REQUIRE(same, "WEIR_TEST_SEED=" << test::run_seed() << ", step " << steps);
  }

  void forget() {
    client.must("DEL", key);
    script.forget_ttl(key);
    state = {};
    plain = {};
  }

  const std::string key = "leases";
  std::int64_t now = t0;
  lease_set::state state;
  reference plain;
  std::int64_t steps = 0;
};

BOOST_FIXTURE_TEST_SUITE(lease_set_suite, fixture)

// The first call after the clock was set back moved all leases: 100,000 of them took 0.3 s.
BOOST_AUTO_TEST_CASE(one_call_moves_a_bounded_number_of_leases) {
  const gate g{10'000, 10'000'000, 11};
  const auto add = [&](std::int64_t leases, std::int64_t length, std::int64_t base = 22) {
    const gate of{0, length, base};
    for (std::int64_t i = 2; i < 2 + leases; ++i) {
      client.must("ZADD", key, std::to_string(now + length), of.name(i));
    }
  };
  add(2500, g.length);
  now -= g.length / 2;
  script.set_clock(now);
  std::int64_t number = 2;
  for (const std::int64_t left : {1500, 500, 0, 0}) {
    const redis::call_tier tiers[] = {{g.kernel(act::enter), number++}};
    script.run(tiers, std::span(&key, 1), {}, false);
    const std::string beyond = '(' + std::to_string(now + g.length);
    BOOST_TEST(client.must("ZCOUNT", key, beyond, "+inf").integer == left);
  }

  // Many leases of a gate with a longer duration lie further ahead, and rightly. They come before
  // those that have to be moved, and would be all that a call looks at.
  client.must("DEL", key);
  constexpr std::int64_t longer = 100 * 10'000'000;
  add(1500, longer);
  now += 40 * g.length;
  add(1500, longer, 23);
  now -= 20 * g.length;
  script.set_clock(now);
  for (int i = 0; i < 3; ++i) {
    const redis::call_tier tiers[] = {{g.kernel(act::enter), number++}};
    script.run(tiers, std::span(&key, 1), {}, false);
  }
  const std::string beyond = '(' + std::to_string(now + longer);
  BOOST_TEST(client.must("ZCOUNT", key, beyond, "+inf").integer == 0);
}

BOOST_AUTO_TEST_CASE(random_traces_agree) {
  test::random_source random(test::run_seed(), 900);
  std::int64_t allowed = 0, refused = 0, renewed = 0, lost = 0, left = 0;
  while (steps < 30'000) {
    forget();
    now = t0;
    const std::int64_t length = random.magnitude(lease_set::longest - 100) + 100;
    const std::int64_t limit = random.one_in(3) ? random.between(1, 3) : random.magnitude(20);
    // The same gate in two processes, and one that was given other numbers.
    const gate gates[] = {
        {limit, length, 11},
        {limit, length, 22},
        {random.magnitude(20), std::max<std::int64_t>(1, length / random.between(1, 9)), 33}};
    std::int64_t number = lease_set::nobody;
    std::vector<std::pair<const gate*, std::int64_t>> given;
    for (int i = 0; i < 150; ++i, ++steps) {
      if (!random.one_in(5)) now += random.magnitude(std::max<std::int64_t>(2, length / 4));
      if (random.one_in(60)) now -= random.magnitude(random.one_in(2) ? length : 20 * length);
      if (random.one_in(60)) now += 2 * length;
      now = std::max(now, t0 / 2);
      const gate& g = random.pick(gates);
      const auto& [of, old] = given.empty() ? std::pair(&g, std::int64_t{2}) : random.pick(given);
      switch (random.between(0, 9)) {
        case 0:
          left += ask(*of, act::leave, old).allowed;
          break;
        case 1:
        case 2:
        case 3:
          (ask(*of, act::renew, old).allowed ? renewed : lost) += 1;
          break;
        case 4:
          ask(g, act::enter, lease_set::nobody, true);
          break;
        case 5:
          ask(*of, random.one_in(2) ? act::renew : act::leave, old, true);
          break;
        case 6:  // a name that may be in already
          if (random.one_in(4)) {
            ask(*of, act::enter, old);
            break;
          }
          [[fallthrough]];
        default:
          given.emplace_back(&g, ++number);
          (ask(g, act::enter, number).allowed ? allowed : refused) += 1;
      }
      if (random.one_in(5)) compare_states();
    }
  }
  BOOST_TEST_MESSAGE(allowed << " let in, " << refused << " refused, " << renewed << " renewed, "
                             << lost << " not, " << left << " left");
  for (const std::int64_t n : {allowed, refused, renewed, lost, left}) BOOST_TEST(n > steps / 100);
}

BOOST_AUTO_TEST_CASE(the_key_lives_until_the_last_lease_lapses) {
  const gate g{3, 1'000'500, 1}, longer{3, 60'000'000, 2};
  const auto ttl = [&] { return script.requested_ttl(key).value_or(-1); };
  ask(g, act::enter, 2);
  BOOST_TEST(ttl() == 3001);
  ask(longer, act::enter, 2);
  BOOST_TEST(ttl() == 62'000);
  now += 500'000;
  script.forget_ttl(key);
  ask(g, act::renew, 2);  // for as long as the other one is in
  BOOST_TEST((ttl() == -1 || ttl() == 61'500));
  ask(longer, act::leave, 2);
  now += 2'000'000;
  ask(g, act::renew, 2);
  BOOST_TEST(client.must("EXISTS", key).integer == 0);
}

BOOST_AUTO_TEST_CASE(a_key_without_a_ttl_is_given_one) {
  const gate g{1, 5'000'000, 1};
  ask(g, act::enter, 2);
  for (const act what : {act::enter, act::leave, act::renew}) {
    client.must("PERSIST", key);
    script.forget_ttl(key);
    ask(g, what, what == act::leave ? 77 : what == act::renew ? 2 : 3);
    BOOST_TEST(script.requested_ttl(key).value_or(-1) == 7000);
    BOOST_TEST(client.must("PTTL", key).integer > 0);
  }
  client.must("PERSIST", key);
  ask(g, act::enter, lease_set::nobody, true);  // a look changes nothing
  BOOST_TEST(client.must("PTTL", key).integer == -1);
}

BOOST_AUTO_TEST_CASE(a_lapsed_lease_stays_lapsed) {
  const gate g{2, 1'000'000, 1};
  BOOST_TEST(ask(g, act::enter, 2).allowed);
  now += 1'000'000 - 1;
  BOOST_TEST(ask(g, act::renew, 2).allowed);
  now += 1'000'000;
  BOOST_TEST(!ask(g, act::renew, 2).allowed);
  BOOST_TEST(!ask(g, act::leave, 2).allowed);
  BOOST_TEST(ask(g, act::enter, 3).used == 1);
}

BOOST_AUTO_TEST_CASE(a_refusal_says_when_there_is_room) {
  const gate two{2, 1'000'000, 1}, three{3, 1'000'000, 2};
  ask(three, act::enter, 2);
  now += 100;
  ask(three, act::enter, 3);
  now += 100;
  ask(three, act::enter, 4);
  BOOST_TEST((ask(three, act::enter, 5).retry_after == 1s - 200us));
  BOOST_TEST((ask(two, act::enter, 6).retry_after == 1s - 100us));  // two have to go
  BOOST_TEST(ask(two, act::enter, 6).remaining == 0);
  BOOST_TEST(ask(three, act::leave, 3).allowed);
  BOOST_TEST((ask(three, act::enter, 2).retry_after == 0s));  // in already, though there is room
}

// No caller is kept out for longer than a lease is long.
BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_keeps_nobody_in) {
  const gate g{1, 1'000'000, 1}, longer{1, 30'000'000, 2};
  ask(g, act::enter, 2);
  now -= 3'600'000'000;
  BOOST_TEST(!ask(g, act::enter, lease_set::nobody, true).allowed);
  BOOST_TEST((ask(g, act::enter, 3).retry_after == 1s));
  now += 1'000'000;
  BOOST_TEST(ask(longer, act::enter, 4).allowed);
  // Not a step of the clock.
  BOOST_TEST((ask(g, act::enter, 5).retry_after == 30s));
  compare_states();
}

// While the duration of a gate is changed, its calls would take as long as there are leases.
BOOST_AUTO_TEST_CASE(no_call_goes_through_the_leases_of_a_gate_with_a_longer_duration) {
  const gate g{9, 1'000'000, 1}, longer{9, 30'000'000, 2};
  ask(longer, act::enter, 2);
  ask(longer, act::enter, 3);
  // A call reads the first lease and the last one; a search, and the last one again, come on top.
  const auto reads = [&](act what, std::int64_t number) {
    const auto count = [&] {
      constexpr std::string_view name = "cmdstat_zrange:calls=";
      const std::string text = client.must("INFO", "commandstats").text;
      return std::stol(text.substr(text.find(name) + name.size()));
    };
    const long before = count();
    ask(g, what, number);
    return count() - before;
  };
  BOOST_TEST(reads(act::enter, 2) == 2);
  BOOST_TEST(reads(act::renew, 2) == 2);
  BOOST_TEST(reads(act::leave, 2) == 2);
  now -= 1;
  BOOST_TEST(reads(act::enter, 3) == 4);
  compare_states();
}

BOOST_AUTO_TEST_CASE(a_foreign_value_is_reported_and_unchanged) {
  const std::vector<std::vector<std::string>> strange = {
      {"SET", key, "1"},
      {"LPUSH", key, "a"},
      {"HSET", key, "a", "1"},
      {"ZADD", key, "1", "a"},
      {"ZADD", key, "1790000000123457", "1:2:3x"},
      {"ZADD", key, "1.5", "1:2:3"},
      {"ZADD", key, "-1", "1:2:3"},
      {"ZADD", key, "0", "1:2:3"},
      {"ZADD", key, "inf", "1:2:3"},
      {"ZADD", key, "-inf", "1:2:3"},
      {"ZADD", key, "9e99", "1:2:3"},
      {"ZADD", key, "1790000000999999", "1:2:3", "inf", "4:5:6"}};
  const gate g{1, 1'000'000, 1};
  script.set_clock(now);
  for (const auto& command : strange) {
    client.must("DEL", key);
    auto writer = client.writer();
    writer.begin(command.size());
    for (const std::string& word : command) writer.arg(word);
    BOOST_TEST_REQUIRE(!client.read().is_error());
    const std::string was = client.must("DUMP", key).text;
    for (const act what : {act::enter, act::renew, act::leave}) {
      for (const std::int64_t count : {0, 1}) {
        const redis::call_tier tiers[] = {{g.kernel(what), 2}};
        const auto found = script.run(tiers, std::span(&key, 1), std::span(&count, 1), false);
        BOOST_TEST(found.at(1) == policies::foreign);
      }
    }
    BOOST_TEST((client.must("DUMP", key).text == was));
  }
  lease_set::summary ignored;
  BOOST_TEST(!lease_set::restore(std::vector<std::int64_t>{-1, 0, 0, 0}, ignored));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lease_set_test
