// Which checks travel together, and in which order.
#include "redis/script/coalescer.hpp"
#include "limiter/limiter_impl.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "weir/concurrency_limiter.hpp"

namespace coalescer_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check_kind;
using weir::detail::lease_act;
using weir::redis::call_list;
using weir::redis::coalescer;
using weir::redis::script_call;

struct fixture {
  core_ptr window = make_core("w", fixed_window{.limit = 9, .window = 10s});
  core_ptr other = make_core("o", fixed_window{.limit = 9, .window = 10s});
  core_ptr strict = make_core("s", sliding_log{.limit = 9, .window = 10s, .count_refused = true});
  std::deque<fake_check> checks;
  weir::detail::check_list line;
  coalescer packer{64};

  void add(const core_ptr& core, std::string_view subject, fake_request kind = check_kind::record,
           std::int64_t cost = 1) {
    line.push_back(checks.emplace_back(core, subject, cost, kind));
  }
  void add_joint(std::initializer_list<std::pair<core_ptr, std::string_view>> claims,
                 fake_request kind = check_kind::record, std::int64_t further_cost = 1) {
    std::vector<weir::detail::term> further;
    for (auto it = claims.begin() + 1; it != claims.end(); ++it) {
      further.push_back({it->first, weir::detail::short_text(it->second), further_cost});
    }
    line.push_back(checks.emplace_back(claims.begin()->first, claims.begin()->second, 1, kind, 0us,
                                       std::move(further)));
  }
  /// The server answers a call of so many keys.
  void answer(std::size_t keys, std::size_t costly, std::size_t tiers = 1) {
    call_list one(1);
    one.front().tiers.assign(tiers, {weir::policies::cool_down(), 1});
    one.front().answered_keys = keys;
    one.front().costly_keys = costly;
    packer.take_back(one);
  }
  /// How many keys of each limiter are in the calls of one full write.
  std::vector<std::size_t> sizes(const core_ptr& limiter) {
    for (int i = 0; i < 300; ++i) add(limiter, "subject " + std::to_string(i));
    std::vector<std::size_t> out;
    for (const script_call& c : packer.pack(line)) out.push_back(c.keys.size());
    line.clear();
    return out;
  }
  /// What each call does, and how many checks each of its keys carries: "record 2 1".
  std::vector<std::string> pack() {
    std::vector<std::string> out;
    for (const script_call& c : packer.pack(line)) {
      out.emplace_back(c.is_record() ? "record" : c.has_script() ? "fetch" : "reset");
      for (const auto& key : c.keys) out.back() += " " + std::to_string(key.count);
    }
    BOOST_TEST(line.empty());
    return out;
  }
};

using calls = std::vector<std::string>;

BOOST_FIXTURE_TEST_SUITE(coalescer_suite, fixture)

BOOST_AUTO_TEST_CASE(equal_checks_of_a_key_become_a_count) {
  for (int i = 0; i < 3; ++i) add(window, "a");
  add(window, "b");
  BOOST_TEST((pack() == calls{"record 3 1"}));
  for (std::uint32_t i = 0; i < 3; ++i) BOOST_TEST(checks[i].position == i);
}

// Equal checks right behind each other go to their key together.
BOOST_AUTO_TEST_CASE(a_check_that_is_due_too_soon_does_not_go_with_the_equal_ones_around_it) {
  constexpr weir::detail::check::steady_time soon{1s}, later{2s};
  for (int i = 0; i < 5; ++i) {
    add(window, "a");
    checks.back().check().flight.deadline = i == 2 ? soon : later;
  }
  weir::detail::check_list none, passed_over;
  const call_list& packed = packer.pack(none, line, {.reachable = later}, passed_over);
  BOOST_TEST_REQUIRE(packed.size() == 1u);
  const auto& key = packed.front().keys.front();
  BOOST_TEST(key.count == 4u);
  BOOST_TEST(packed.front().check_count == 4u);
  std::uint32_t position = 0;
  for (const auto& c : key.checks) BOOST_TEST(c.flight.position == position++);
  BOOST_TEST(position == 4u);
  BOOST_TEST_REQUIRE(passed_over.size() == 1u);
  BOOST_TEST(&passed_over.front() == &checks[2].check());
  passed_over.clear();
}

BOOST_AUTO_TEST_CASE(limiters_do_not_share_calls_though_subjects_have_one_name) {
  add(window, "a");
  add(other, "a");
  add(window, "a");
  BOOST_TEST((pack() == calls{"record 2", "record 1"}));
}

// The second record joined the first one's call, and went before the reset.
BOOST_AUTO_TEST_CASE(checks_of_a_key_keep_their_order_whichever_limiter_they_are_made_through) {
  const core_ptr same = make_core("w", fixed_window{.limit = 9, .window = 10s});
  const core_ptr tiers = make_core("w", weir::tiers(fixed_window{.limit = 9, .window = 10s},
                                                    fixed_window{.limit = 99, .window = 99s}));
  for (const core_ptr& second : {same, tiers}) {
    add(window, "a");
    add(second, "a", check_kind::reset);
    add(window, "a");
    add(second, "b", check_kind::reset);
    BOOST_TEST((pack() == calls{"record 1", "reset 1 1", "record 1"}));
    add(window, "a");
    add_joint({{second, "a"}, {other, "c"}});
    add(window, "a");
    BOOST_TEST((pack() == calls{"record 1", "record 1", "record 1"}));
  }
}

// Looking is not counting, though both have one cost.
BOOST_AUTO_TEST_CASE(a_fetch_between_records_keeps_its_place) {
  add(window, "a");
  add(window, "a", check_kind::fetch);
  add(window, "a");
  BOOST_TEST((pack() == calls{"record 1", "fetch 1", "record 1"}));
}

// Each refusal moves the time of the next: no count can say that.
BOOST_AUTO_TEST_CASE(checks_whose_refusals_count_are_keys_of_their_own) {
  for (int i = 0; i < 3; ++i) add(strict, "a");
  BOOST_TEST((pack() == calls{"record 1 1 1"}));
  add(strict, "a", check_kind::fetch);
  add(strict, "a", check_kind::fetch);
  BOOST_TEST((pack() == calls{"fetch 2"}));
}

BOOST_AUTO_TEST_CASE(resets_of_many_keys_share_a_call) {
  add(window, "a", check_kind::reset);
  add(window, "b", check_kind::reset);
  add(window, "a", check_kind::reset);
  BOOST_TEST((pack() == calls{"reset 2 1"}));
}

// So that a server that takes in all there is has something to do while the next write is prepared.
BOOST_AUTO_TEST_CASE(one_write_takes_a_bounded_number_of_keys_but_any_number_of_checks) {
  answer(128, 0);
  for (int i = 0; i < 1000; ++i) add(window, "hot");
  for (int i = 0; i < 300; ++i) add(window, "cold " + std::to_string(i));
  const auto& first = packer.pack(line);
  BOOST_TEST_REQUIRE(first.size() == 4u);
  BOOST_TEST(first.front().keys[0].count == 1000u);
  for (const script_call& c : first) BOOST_TEST(c.keys.size() == 64u);
  BOOST_TEST(line.size() == 45u);
  BOOST_TEST(&line.front() == &checks[1255].check());
  BOOST_TEST(packer.pack(line).size() == 1u);
  BOOST_TEST(line.empty());

  // A key of each limiter.
  for (int i = 0; i < 150; ++i) {
    const std::string name = std::to_string(i);
    add_joint({{window, name}, {other, name}});
  }
  packer.pack(line);
  BOOST_TEST(line.size() == 22u);
}

// New keys, and those whose state has ended, take the server twice as long as others: 64 of them
// held it for up to 20 times what a usual script takes.
BOOST_AUTO_TEST_CASE(calls_are_small_until_the_server_has_said_that_keys_are_in_use) {
  using list = std::vector<std::size_t>;
  const list small(8, 32), large(4, 64);
  BOOST_TEST(sizes(window) == small);
  answer(32, 0);
  BOOST_TEST(sizes(window) == small);
  for (int i = 0; i < 8; ++i) answer(32, 0);
  BOOST_TEST(sizes(window) == large);
  for (int i = 0; i < 20; ++i) answer(64, 6);
  BOOST_TEST(sizes(window) == large);
  answer(64, 64);
  BOOST_TEST(sizes(window) == small);
  // A call without an answer says nothing.
  for (int i = 0; i < 20; ++i) answer(0, 0);
  BOOST_TEST(sizes(window) == small);
}

BOOST_AUTO_TEST_CASE(keys_that_cost_more_travel_in_smaller_calls) {
  answer(128, 0);
  const auto most = [&](const core_ptr& limiter) { return sizes(limiter).front(); };
  const core_ptr bucket = make_core("b", token_bucket{9, per_second(1)});
  BOOST_TEST(most(bucket) == 64u);
  const core_ptr log = make_core("l", sliding_log{.limit = 9, .window = 10s});
  BOOST_TEST(most(log) == 18u);
  const core_ptr in_parts = make_core("p", token_bucket{9, {7, 3s}});
  BOOST_TEST(most(in_parts) == 40u);
  // The full kernel takes all keys of a window without a limit.
  const core_ptr full = make_core("u", fixed_window{.limit = unlimited, .window = 10s});
  BOOST_TEST(most(full) == 15u);
  BOOST_TEST(most(strict) == 10u);
  const core_ptr two = make_core(
      "t", weir::tiers{token_bucket{9, per_second(1)}, fixed_window{.limit = 9, .window = 10s}});
  answer(128, 0, 2);
  BOOST_TEST(most(two) == 14u);
  const core_ptr with_log = make_core(
      "tl", weir::tiers{token_bucket{9, per_second(1)}, sliding_log{.limit = 9, .window = 10s}});
  BOOST_TEST(most(with_log) == 9u);
  answer(24, 24, 2);
  answer(24, 24, 2);
  BOOST_TEST(most(two) == 6u);
  BOOST_TEST(most(with_log) == 3u);
}

BOOST_AUTO_TEST_CASE(the_largest_call_that_the_user_allows_bounds_all_and_a_larger_one_scales_all) {
  const core_ptr log = make_core("l", sliding_log{.limit = 9, .window = 10s});
  const auto most_of = [&](std::size_t allowed, const core_ptr& limiter) {
    packer = coalescer(allowed);
    answer(128, 0);
    return sizes(limiter).front();
  };
  BOOST_TEST(most_of(1, log) == 1u);
  BOOST_TEST(most_of(18, log) == 18u);
  BOOST_TEST(most_of(30, log) == 18u);
  BOOST_TEST(most_of(128, log) == 36u);
  BOOST_TEST(most_of(30, window) == 30u);
  BOOST_TEST(most_of(128, window) == 128u);
}

// They are looked for one by one, which takes the server its time.
BOOST_AUTO_TEST_CASE(reservations_of_many_subjects_do_not_hold_up_the_server_together) {
  const core_ptr bucket = make_core("b", token_bucket{9, per_second(1)});
  for (int i = 0; i < 600; ++i) {
    add(bucket, "subject " + std::to_string(i % 30), check_kind::acquire);
  }
  std::size_t turns = 0;
  while (!line.empty()) {
    for (const script_call& c : packer.pack(line)) {
      std::size_t in_call = 0;
      for (const auto& key : c.keys) in_call += key.count;
      BOOST_TEST(in_call <= 12u);
      turns += in_call;
    }
  }
  BOOST_TEST(turns == 600u);

  const core_ptr two = make_core(
      "t", weir::tiers{token_bucket{9, per_second(1)}, sliding_log{.limit = 9, .window = 1min}});
  // One in a log costs as much as four in buckets.
  for (int i = 0; i < 99; ++i) add(two, "a", check_kind::acquire);
  BOOST_TEST(packer.pack(line).size() == 50u);
}

// Equal turns of one subject were free: one write took far more of them than its quota.
BOOST_AUTO_TEST_CASE(equal_reservations_are_work_each_and_count_in_the_quota) {
  const core_ptr bucket = make_core("b", token_bucket{9, per_second(1)});
  const core_ptr two = make_core(
      "t", weir::tiers{token_bucket{9, per_second(1)}, sliding_log{.limit = 9, .window = 1min}});
  const auto turns_of = [&](std::size_t quota) {
    weir::detail::check_list urgent, passed_over;
    std::size_t turns = 0;
    for (const script_call& c : packer.pack(urgent, line, {.keys = quota}, passed_over))
      turns += c.check_count;
    return turns;
  };
  for (int i = 0; i < 1000; ++i) add(bucket, "hot", check_kind::acquire);
  BOOST_TEST(turns_of(10) == 10u);
  BOOST_TEST(turns_of(coalescer::max_keys_per_write) == 21 * 12u);
  line.clear();
  for (int i = 0; i < 1000; ++i) add(two, "hot", check_kind::acquire);
  BOOST_TEST(turns_of(10) == 4u);
  line.clear();
  for (int i = 0; i < 1000; ++i) {
    add_joint({{bucket, "hot"}, {window, "hot"}}, check_kind::acquire);
  }
  BOOST_TEST(turns_of(10) == 5u);
  line.clear();
}

// The script counts each of them on its own: 50,000 in one call held the server for 0.7 s.
BOOST_AUTO_TEST_CASE(equal_checks_of_two_leaky_buckets_have_small_calls) {
  const policy queue = leaky_bucket{9, per_second(1)};
  const core_ptr two = make_core("q", weir::tiers{queue, queue});
  const core_ptr one = make_core("o", queue), other = make_core("p", queue);
  const auto sizes = [&] {
    std::vector<std::size_t> out;
    for (const script_call& c : packer.pack(line)) out.push_back(c.check_count);
    return out;
  };
  using list = std::vector<std::size_t>;
  for (int i = 0; i < 15; ++i) add(two, "hot");
  BOOST_TEST((sizes() == list{6, 6, 3}));
  for (int i = 0; i < 15; ++i) add_joint({{one, "hot"}, {other, "hot"}});
  BOOST_TEST((sizes() == list{6, 6, 3}));
  // They count in the quota one by one, too.
  for (int i = 0; i < 1000; ++i) add(two, "hot");
  BOOST_TEST(sizes().size() == 22u);
  line.clear();
  for (int i = 0; i < 30; ++i) add(one, "hot");
  BOOST_TEST((sizes() == list{30}));
}

// A quota that was no multiple of a full call made a call for the rest, of as few as 2.
BOOST_AUTO_TEST_CASE(the_rest_of_a_quota_does_not_make_a_small_call) {
  const policy bucket = token_bucket{9, per_second(1)};
  const core_ptr one = make_core("b", bucket);
  const core_ptr three = make_core("t", weir::tiers{bucket, bucket, bucket});
  const auto sizes = [&](const core_ptr& limiter, std::size_t quota) {
    for (int i = 0; i < 1000; ++i) add(limiter, "hot", check_kind::acquire);
    weir::detail::check_list urgent, passed_over;
    std::vector<std::size_t> out;
    for (const script_call& c : packer.pack(urgent, line, {.keys = quota}, passed_over)) {
      out.push_back(c.check_count);
    }
    line.clear();
    return out;
  };
  using list = std::vector<std::size_t>;
  BOOST_TEST((sizes(one, 30) == list{12, 12}));
  BOOST_TEST((sizes(one, 12) == list{12}));
  BOOST_TEST((sizes(one, 11) == list{11}));
  BOOST_TEST((sizes(three, 50) == list{4, 4, 4, 4}));
  BOOST_TEST((sizes(three, 25) == list{4, 4}));
  BOOST_TEST((sizes(three, 10) == list{4}));
}

BOOST_AUTO_TEST_CASE(a_call_that_may_be_larger_than_a_write_is_filled) {
  packer = coalescer(1000);
  answer(128, 0);
  for (int i = 0; i < 1001; ++i) add(window, "cold " + std::to_string(i));
  const auto& all = packer.pack(line);
  BOOST_TEST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all.front().keys.size() == 1000u);
}

BOOST_AUTO_TEST_CASE(joint_checks_of_the_same_keys_become_a_count_and_of_the_same_limiters_a_call) {
  for (int i = 0; i < 3; ++i) add_joint({{window, "a"}, {other, "b"}});
  add_joint({{window, "c"}, {other, "d"}});
  add_joint({{other, "b"}, {window, "e"}});
  BOOST_TEST((pack() == calls{"record 3 1", "record 1"}));
  BOOST_TEST(checks[2].position == 2u);
}

BOOST_AUTO_TEST_CASE(joint_and_single_checks_of_a_key_keep_their_order) {
  add_joint({{window, "a"}, {other, "b"}});
  add(other, "b");
  add_joint({{window, "a"}, {other, "b"}});
  BOOST_TEST((pack() == calls{"record 1", "record 1", "record 1"}));
  add_joint({{window, "a"}, {other, "b"}});
  add_joint({{window, "a"}, {other, "c"}});
  add_joint({{window, "a"}, {other, "b"}});
  BOOST_TEST((pack() == calls{"record 1 1 1"}));
  add(window, "a");
  add_joint({{other, "b"}, {window, "a"}});
  add(window, "a");
  add(window, "z");
  BOOST_TEST((pack() == calls{"record 1", "record 1", "record 1 1"}));
}

BOOST_AUTO_TEST_CASE(further_limiters_of_other_costs_are_other_checks) {
  add_joint({{window, "a"}, {other, "b"}});
  add_joint({{window, "a"}, {other, "b"}}, check_kind::record, 2);
  BOOST_TEST((pack() == calls{"record 1", "record 1"}));
}

// Each lease has a number of its own; should two checks have the same, each is asked even so.
BOOST_AUTO_TEST_CASE(checks_of_leases_travel_alone_and_in_order) {
  const core_ptr gate = std::make_shared<weir::detail::limiter_impl>(std::make_shared<null_store>(),
                                                                     "g", concurrency_options{});
  const auto told = [&] {
    calls out;
    for (const script_call& c : packer.pack(line)) {
      const weir::redis::call_tier& tier = c.tiers.front();
      const auto arguments = std::get<weir::policies::lease_set>(tier.kernel).arguments(tier.cost);
      const char* const acts[] = {"enter ", "renew ", "leave "};
      out.push_back(acts[arguments[2]] + std::to_string(arguments[4]));
      BOOST_TEST((c.what == script_call::command::request));
      for (const auto& key : c.keys) out.back() += key.count == 1 ? "." : "?";
    }
    return out;
  };
  add(gate, "a", lease_act::enter, 2);
  add(gate, "a", lease_act::leave, 2);
  add(gate, "b", lease_act::enter, 3);
  add(gate, "a", lease_act::enter, 4);
  add(gate, "a", lease_act::renew, 4);
  add(gate, "a", lease_act::renew, 4);
  add(gate, "a", lease_act::leave, 4);
  BOOST_TEST((told() == calls{"enter 2.", "leave 2.", "enter 3.", "enter 4.", "renew 4.",
                              "renew 4.", "leave 4."}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace coalescer_test
