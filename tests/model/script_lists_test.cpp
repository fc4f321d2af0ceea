// Which checks and reservations have scripts with a common path, and how many a process makes.
#include "model/both_paths.hpp"

namespace script_lists_test {

using namespace weir;
using namespace weir::test;
using namespace weir::model;
using detail::check_kind;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

BOOST_FIXTURE_TEST_SUITE(script_lists_suite, both_paths)

BOOST_AUTO_TEST_CASE(policies_without_a_part_take_the_full_kernels) {
  const policies::kernel bucket = policies::compile(token_bucket{3, per_hour(3)});
  const policies::kernel queue = policies::compile(leaky_bucket{3, per_hour(3)});
  BOOST_TEST(has_common_path(of({bucket, queue})));
  BOOST_TEST(!has_common_path(of({queue, queue})));
  BOOST_TEST(!has_common_path(of({bucket, queue}), true));
  for (const policy& p : {policy(sliding_log{.limit = 3, .window = 1h, .count_refused = true}),
                          policy(fixed_window{.limit = unlimited, .window = 1h}),
                          policy(sliding_window{.limit = unlimited, .window = 1h})}) {
    for (const bool reserves : {false, true}) {
      BOOST_TEST(!has_common_path(of({bucket, policies::compile(p)}), reserves), test::text_of(p));
    }
  }
  BOOST_TEST(!has_common_path(of({bucket, policies::cool_down(1'000'000)})));
}

// Lua allows 200 local names in a function, and a script has some for each tier.
BOOST_AUTO_TEST_CASE(the_most_tiers_fit_into_one_script) {
  for (const policy& p :
       {policy(token_bucket{2, every(1h)}), policy(token_bucket{2, {7, 9h}}),
        policy(fixed_window{2, 1h}), policy(sliding_window{2, 1h}), policy(sliding_log{2, 1h})}) {
    std::vector<redis::call_tier> tiers(redis::most_common_tiers, {policies::compile(p), 1});
    key_list keys;
    for (std::size_t i = 0; i < tiers.size(); ++i) keys.push_back(std::to_string(i));
    const auto found = check(tiers, keys, t0, {2}, path::common);
    BOOST_TEST(answers(tiers, check(tiers, keys, t0, {0}, path::full), t0, {0}) !=
               answers(tiers, found, t0, {0}));
    // What the last one refuses, none of the others counts.
    client.must("DEL", "0", "1", "2", "3", "4", "5", "6");
    check(tiers, keys, t0, {1}, path::common);
    BOOST_TEST(client.must("EXISTS", "0", "1", "2", "3", "4", "5", "6").integer == 0,
               test::text_of(p));
    client.must("FLUSHALL");
    BOOST_TEST(turns(tiers, keys, t0, {1}, 0, path::common).at(1) == redis::at_once);
    tiers.push_back(tiers.front());
    BOOST_TEST(!has_common_path(tiers));
    client.must("FLUSHALL");
  }
}

// With the most keys that a check may have, and without a common path.
BOOST_AUTO_TEST_CASE(the_longest_list_fits_into_a_script) {
  for (const policy& p : {policy(token_bucket{2, {7, 9h}}), policy(sliding_window{2, 1h}),
                          policy(sliding_log{2, 1h})}) {
    std::vector<redis::call_tier> tiers(policies::max_tiers, {policies::compile(p), 1});
    key_list keys;
    for (std::size_t i = 0; i < tiers.size(); ++i) keys.push_back(std::to_string(i));
    check(tiers, keys, t0, {2}, path::full);
    BOOST_TEST(client.must("EXISTS", "0", "15").integer == 2, test::text_of(p));
    BOOST_TEST(turns(tiers, keys, t0, {1}, 7'200'000'000, path::full).at(1) > t0);
    client.must("FLUSHALL");
  }
}

// Else the server's script cache would grow with whatever limiters there are.
BOOST_AUTO_TEST_CASE(a_process_makes_so_many_scripts_and_no_more) {
  const policies::kernel kernels[] = {policies::compile(token_bucket{2, every(1h)}),
                                      policies::compile(fixed_window{2, 1h}),
                                      policies::compile(sliding_window{2, 1h})};
  std::map<std::size_t, std::size_t> scripts;
  std::size_t refused = 0;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t n = 0; n < 1100; ++n) {
      redis::script_call call;
      call.kind = n % 2 == 0 ? check_kind::record : check_kind::acquire;
      call.traits = n % 2 == 0 ? detail::asks::record : detail::asks::acquire;
      for (std::size_t t = 0, rest = n; t < 7; ++t, rest /= 3) {
        call.tiers.push_back({kernels[rest % 3], 1});
      }
      const std::size_t script = redis::script_of(call);
      BOOST_TEST(scripts.try_emplace(n, script).first->second == script);
      if (script == redis::no_script) {
        ++refused;
        continue;
      }
      BOOST_TEST_REQUIRE(script < redis::scripts().size());
      BOOST_TEST((redis::list_of_script(script) ==
                  joint_scripts::list_of({call.tiers.data(), call.tiers.size()}, false)));
    }
  }
  BOOST_TEST(redis::scripts().size() == redis::most_scripts);
  BOOST_TEST(refused > 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace script_lists_test
