// Where and how long memcached keeps a subject: keys, expiry, and which of several servers.
#include "memcached/expiry.hpp"
#include "memcached/ketama.hpp"
#include "memcached/meta_writer.hpp"
#include "memcached/wire_key.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace memcached_keys_test {

using namespace weir;
using namespace weir::test;
using weir::memcached::expiry_of;
using weir::memcached::ketama;
using weir::memcached::wire_key;

constexpr std::int64_t second = 1'000'000;

std::vector<std::size_t> servers_of_accounts(const ketama& ring) {
  std::vector<std::size_t> found;
  for (int i = 0; i < 12; ++i) {
    found.push_back(ring.server_of("weir:{partner-api:account-" + std::to_string(i) + "}"));
  }
  return found;
}

std::string key_of(std::string_view subject, const limiter_options& options = {}) {
  const auto core = make_core("r", fixed_window{.limit = 1, .window = 1s}, options);
  std::string key;
  core->append_subject_key(key, subject);
  return key;
}

BOOST_AUTO_TEST_SUITE(memcached_keys_suite)

BOOST_AUTO_TEST_CASE(a_subject_has_one_key_for_all_tiers) {
  BOOST_TEST(key_of("account-42") == "weir:{r:account-42}");
  BOOST_TEST(key_of("a{b}%") == "weir:{r:a%7Bb%7D%25}");
  BOOST_TEST(key_of("a", {.group = "g"}) == "weir:{g}:r:a");
  const auto core = make_core(
      "r", tiers(gcra{per_second(1)}, fixed_window{.limit = 1, .window = 1s}, gcra{per_second(2)}),
      {.cool_downs = true});
  const std::vector<std::string> names = {"m", "f1", "m2", "h"};
  for (std::size_t i = 0; i < names.size(); ++i) BOOST_TEST(core->tier_name(i) == names[i]);
}

BOOST_AUTO_TEST_CASE(a_key_that_memcached_takes_stays_as_it_is) {
  BOOST_TEST(wire_key("weir:{r:x}") == "weir:{r:x}");
  const std::string longest = "weir:{r:" + std::string(241, 'x') + "}";
  BOOST_TEST(longest.size() == 250u);
  BOOST_TEST(wire_key(longest) == longest);
}

BOOST_AUTO_TEST_CASE(other_keys_are_hashed) {
  // printf 'weir:{r:a b}' | sha256sum
  BOOST_TEST(wire_key("weir:{r:a b}") ==
             "weir:sha256:698558031f1ef574d792eead1311fb6a5c64f9209bf6b6ea71c115807ccef0e6");
  for (const std::string& key :
       {"weir:{r:" + std::string(242, 'x') + "}", std::string("weir:{r:a\r\nflush_all}"),
        std::string("weir:{r:\xc3\xa4}"), std::string("weir:{r:a\0b}", 12),
        std::string("weir:{r:\x7f}")}) {
    const std::string wire = wire_key(key);
    BOOST_TEST(wire.size() == 5 + 7 + 64u);
    BOOST_TEST(wire.starts_with("weir:sha256:"));
    BOOST_TEST(wire != wire_key(key + "x"));
  }
  BOOST_TEST(wire_key(std::string(300, 'p') + ":{r:x}").size() == 7 + 64u);
  BOOST_TEST(wire_key("a b:{r:x}").starts_with("sha256:"));
}

BOOST_AUTO_TEST_CASE(requests_are_one_line_and_a_value) {
  std::string out;
  weir::memcached::write_get(out, "k");
  weir::memcached::write_store(out, "k", "a\r\nb", 0, 7);
  weir::memcached::write_store(out, "k", "", 18, 2'592'000);
  weir::memcached::write_delete(out, "k", 19);
  weir::memcached::write_noop(out);
  weir::memcached::write_settings(out);
  weir::memcached::write_stats(out);
  BOOST_TEST(out ==
             "mg k v c\r\nms k 4 ME T7\r\na\r\nb\r\nms k 0 C18 T2592000\r\n\r\nmd k C19\r\nmn\r\n"
             "stats settings\r\nstats\r\n");
}

BOOST_AUTO_TEST_CASE(an_item_outlasts_its_state_and_the_grace) {
  constexpr std::int64_t now = 1'790'000'000 * second + 123'456;
  BOOST_TEST(expiry_of(now, now) == 3);
  BOOST_TEST(expiry_of(now - 5 * second, now) == 3);
  BOOST_TEST(expiry_of(now + 1, now) == 4);
  BOOST_TEST(expiry_of(now + second, now) == 4);
  // The last second that memcached takes as such, and the first that it would take for 1970.
  const std::int64_t month = 30 * 24 * 3600;
  BOOST_TEST(expiry_of(now + (month - 3) * second, now) == month);
  const std::int64_t later = expiry_of(now + (month - 2) * second, now);
  BOOST_TEST(later == 1'790'000'000 + month + 1 + 6);
  // 35 years ahead lies beyond 2038.
  BOOST_TEST(expiry_of(now + (std::int64_t{1} << 50), now) == 2'147'483'647);
}

// From a second implementation (Python), which finds all servers of libmemcached's own test
// vectors (tests/ketama_test_cases.h, the weighted list of eight servers).
BOOST_AUTO_TEST_CASE(keys_go_where_the_common_clients_look_for_them) {
  using expected = std::vector<std::size_t>;
  std::vector<memcached_server> weighted;
  const std::uint32_t weights[] = {600, 300, 200, 350, 1000, 800, 950, 100};
  for (const std::uint32_t w : weights) {
    const std::string host = "10.0.1." + std::to_string(weighted.size() + 1);
    weighted.push_back({.host = host, .weight = w});
  }
  const expected by_weight = {6, 0, 5, 1, 0, 1, 6, 1, 3, 2, 5, 0};
  BOOST_TEST(servers_of_accounts(ketama(weighted)) == by_weight);

  const expected equal = {1, 1, 0, 0, 0, 0, 2, 2, 0, 2, 2, 0};
  const ketama three({{"10.0.0.1"}, {"10.0.0.2"}, {"10.0.0.3"}});
  BOOST_TEST(servers_of_accounts(three) == equal);

  const expected with_ports = {1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 2};
  const ketama ports({{"cache-a"}, {"cache-b", 11212}, {"cache-c", 21211}});
  BOOST_TEST(servers_of_accounts(ports) == with_ports);

  // libmemcached gives a Unix socket the port 0, and names it by its path.
  const ketama sockets({{.unix_path = "/run/a"}, {.host = "cache"}, {.unix_path = "/run/b"}});
  const ketama as_hosts({{"/run/a", 0}, {"cache"}, {"/run/b", 0}});
  BOOST_TEST(servers_of_accounts(sockets) == servers_of_accounts(as_hosts));

  // Single precision gives each of 25 servers 39 hashes, not 40.
  std::vector<memcached_server> many(25);
  for (std::size_t i = 0; i < many.size(); ++i) many[i].host = "h" + std::to_string(i);
  const expected of_many = {7, 16, 21, 13, 14, 4, 3, 6, 3, 1, 14, 11};
  BOOST_TEST(servers_of_accounts(ketama(many)) == of_many);
}

// Among a thousand servers, a few pairs have an equal point. The first in the list had the keys
// before it.
BOOST_AUTO_TEST_CASE(the_order_of_the_servers_in_the_list_does_not_matter) {
  std::vector<memcached_server> servers(1000);
  for (std::size_t i = 0; i < servers.size(); ++i) servers[i].host = "cache" + std::to_string(i);
  std::vector<memcached_server> backward(servers.rbegin(), servers.rend());
  const ketama one(servers), other(backward);
  for (const int account : {1, 2, 3, 12521, 43485, 61382, 81529}) {
    const std::string key = "weir:{r:account-" + std::to_string(account) + "}";
    BOOST_TEST(servers[one.server_of(key)].host == backward[other.server_of(key)].host, key);
  }
}

BOOST_AUTO_TEST_CASE(a_server_less_moves_only_its_own_keys) {
  const ketama all({{"a"}, {"b"}, {"c"}, {"d"}});
  const ketama less({{"a"}, {"b"}, {"c"}});
  std::map<std::size_t, int> share;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::size_t before = all.server_of(key);
    ++share[before];
    if (before < 3) BOOST_TEST_REQUIRE(less.server_of(key) == before);
  }
  for (const auto& [server, keys] : share) BOOST_TEST((keys > 600 && keys < 1400));
  BOOST_TEST(ketama({{"alone"}}).server_of("k") == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_keys_test
