// What a node of a Redis Cluster says of its slots, and of keys that are elsewhere.
#include "redis/slot_map.hpp"

#include "redis/resp/resp_reader.hpp"
#include "support/test.hpp"

namespace slot_map_test {

using namespace weir;
using weir::redis::read_redirection;
using weir::redis::read_slot_map;
using weir::redis::redirection;
using weir::redis::reply_reader;
using weir::redis::slot_count;
using weir::redis::slot_map;

std::unique_ptr<slot_map> read(std::string_view bytes) {
  reply_reader reader(weir::redis::slot_map_limits);
  const auto room = reader.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.commit(bytes.size());
  error_code ec;
  const auto* reply = reader.next(ec);
  BOOST_TEST_REQUIRE(reply != nullptr, "the test's reply is malformed: " << bytes);
  return read_slot_map(*reply, "asked.example");
}

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}
std::string number(std::int64_t n) { return ":" + std::to_string(n) + "\r\n"; }
std::string array(std::size_t n) { return "*" + std::to_string(n) + "\r\n"; }

/// A node as Redis 7 tells it, without further addresses.
std::string node(const std::string& host, int port) {
  return array(4) + host + number(port) + bulk(std::string(40, 'a')) + array(0);
}
std::string range(std::int64_t first, std::int64_t last, const std::string& master) {
  return array(3) + number(first) + number(last) + master;
}

BOOST_AUTO_TEST_SUITE(slot_map_suite)

BOOST_AUTO_TEST_CASE(ranges_and_their_masters) {
  const std::string id = bulk(std::string(40, 'f'));
  // Redis 6.2: no further addresses. A replica behind the master says nothing.
  const auto map = read(array(3) + array(4) + number(0) + number(5460) + array(3) +
                        bulk("10.0.0.1") + number(7000) + id + array(3) + bulk("10.0.0.4") +
                        number(7003) + id + range(5461, 5461, node(bulk("::1"), 7001)) +
                        range(5463, 16383, node(bulk("10.0.0.1"), 7000)));
  BOOST_TEST_REQUIRE(map != nullptr);
  BOOST_TEST_REQUIRE(map->masters.size() == 2u);
  BOOST_TEST((map->masters[0] == redis_address{"10.0.0.1", 7000}));
  BOOST_TEST((map->masters[1] == redis_address{"::1", 7001}));
  BOOST_TEST(map->owner[0] == 0);
  BOOST_TEST(map->owner[5460] == 0);
  BOOST_TEST(map->owner[5461] == 1);
  BOOST_TEST(map->owner[5462] == slot_map::none);
  BOOST_TEST(map->owner[16383] == 0);
}

// cluster-preferred-endpoint-type unknown-endpoint, a node that never met another, and a node
// without a name where names are preferred.
BOOST_AUTO_TEST_CASE(a_node_without_an_address_is_where_it_was_asked) {
  const std::string id = bulk(std::string(40, 'f'));
  const std::string with_ip = array(4) + bulk("?") + number(7000) + id + array(2) + bulk("ip") +
                              bulk("10.0.0.9");
  const std::string with_ip_3 = array(4) + bulk("?") + number(7000) + id + "%2\r\n" + bulk("x") +
                                number(1) + bulk("ip") + bulk("10.0.0.8");
  for (const auto& [master, host] :
       {std::pair<std::string, std::string>{node("$-1\r\n", 7000), "asked.example"},
        {node("_\r\n", 7000), "asked.example"},
        {node(bulk(""), 7000), "asked.example"},
        {node(bulk("?"), 7000), "asked.example"},
        {array(2) + bulk("?") + number(7000), "asked.example"},
        {with_ip, "10.0.0.9"},
        {with_ip_3, "10.0.0.8"}}) {
    const auto map = read(array(1) + range(0, 16383, master));
    BOOST_TEST_REQUIRE(map != nullptr);
    BOOST_TEST((map->masters[0] == redis_address{host, 7000}));
  }
}

// A master that was replaced by an empty server has no address any more (Redis calls it noaddr).
// The whole map was refused, so that no slot of the other masters could be reached.
BOOST_AUTO_TEST_CASE(slots_of_a_master_that_nobody_can_find_have_no_owner) {
  const auto map = read(array(3) + range(0, 5460, node(bulk("10.0.0.1"), 7000)) +
                        range(5461, 10922, node(bulk(""), 0)) +
                        range(10923, 16383, node(bulk("10.0.0.3"), 7000)));
  BOOST_TEST_REQUIRE(map != nullptr);
  BOOST_TEST_REQUIRE(map->masters.size() == 2u);
  BOOST_TEST((map->masters[1] == redis_address{"10.0.0.3", 7000}));
  BOOST_TEST(map->owner[5460] == 0);
  BOOST_TEST(map->owner[5461] == slot_map::none);
  BOOST_TEST(map->owner[10922] == slot_map::none);
  BOOST_TEST(map->owner[10923] == 1);
}

BOOST_AUTO_TEST_CASE(anything_else_is_no_slot_map) {
  const std::string good = node(bulk("h"), 1);
  for (const std::string& bytes :
       {std::string("+OK\r\n"),
        std::string("-ERR This instance has cluster support disabled\r\n"),
        array(0),
        std::string("*-1\r\n"),
        array(1) + number(1),
        array(1) + array(0),
        array(1) + array(2) + number(0) + number(1),
        array(1) + range(-1, 5, good),
        array(1) + range(0, 16384, good),
        array(1) + range(5, 4, good),
        array(2) + range(0, 16383, good) + range(7, 7, good),  // a slot is named twice
        array(1) + range(0, 1, number(1)),
        array(1) + range(0, 1, array(0)),
        array(1) + range(0, 1, array(1) + bulk("h")),
        array(1) + range(0, 1, array(2) + bulk("h") + bulk("1")),
        array(1) + range(0, 1, array(2) + number(1) + number(1)),
        array(1) + range(0, 1, array(2) + array(1) + bulk("h") + number(1)),
        array(1) + range(0, 1, node(bulk("h"), 0)),
        array(1) + range(0, 1, node(bulk("h"), -1)),
        array(1) + range(0, 1, node(bulk("h"), 65536)),
        array(1) + range(0, 1, node(bulk("h\r\nx"), 1)),
        array(1) + range(0, 1, node(bulk(std::string(256, 'h')), 1)),
        array(2) + range(0, 1, good) + range(2, 3, number(1))}) {
    BOOST_TEST((read(bytes) == nullptr), bytes);
  }
}

BOOST_AUTO_TEST_CASE(a_map_with_too_many_masters_is_refused) {
  for (const std::size_t masters : {slot_map::max_masters, slot_map::max_masters + 1}) {
    std::string bytes = array(masters);
    for (std::size_t i = 0; i < masters; ++i) {
      bytes += range(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i),
                     node(bulk("h"), static_cast<int>(1 + i)));
    }
    BOOST_TEST((read(bytes) != nullptr) == (masters == slot_map::max_masters));
  }
}

// Each slot may be a range of its own, with two replicas.
BOOST_AUTO_TEST_CASE(the_most_fragmented_map_is_within_the_bounds_of_a_reply) {
  std::string bytes = array(slot_count);
  for (std::size_t slot = 0; slot < slot_count; ++slot) {
    const auto n = static_cast<std::int64_t>(slot);
    const std::string each = array(4) + bulk("h" + std::to_string(slot % 3)) + number(7000) +
                             bulk(std::string(40, 'f')) + array(4) + bulk("ip") + bulk("10.0.0.1") +
                             bulk("hostname") + bulk("h.example.com");
    bytes += array(5) + number(n) + number(n) + each + each + each;
  }
  const auto map = read(bytes);
  BOOST_TEST_REQUIRE(map != nullptr);
  BOOST_TEST(map->masters.size() == 3u);
  BOOST_TEST(map->owner[16383] == 16383 % 3);
}

BOOST_AUTO_TEST_CASE(redirections_are_read_from_error_replies) {
  using enum redirection::kind;
  struct {
    std::string_view text;
    redirection::kind kind;
    redis_address to = {{}, 6379};
  } const table[] = {
      {"MOVED 3999 127.0.0.1:6381", moved, {"127.0.0.1", 6381}},
      {"MOVED 3999 ::1:6381", moved, {"::1", 6381}},
      {"MOVED 3999 node.example.com:6381", moved, {"node.example.com", 6381}},
      {"MOVED 3999 :6381", moved, {"", 6381}},
      {"MOVED 3999 ?:6381", moved, {"", 6381}},
      {"ASK 3999 127.0.0.1:6381", ask, {"127.0.0.1", 6381}},
      {"TRYAGAIN Multiple keys request during rehashing of slot", try_again},
      {"CLUSTERDOWN Hash slot not served", down},
      {"CLUSTERDOWN The cluster is down", down},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", down},
      {"READONLY You can't write against a read only replica.", down},
      // They lead nowhere, but nothing ran.
      {"MOVED 3999", lost},
      {"MOVED 3999 h", lost},
      {"MOVED 3999 h:", lost},
      {"MOVED 3999 h:0", lost},
      {"MOVED 3999 h:65536", lost},
      {"MOVED 3999 h:1x", lost},
      {"MOVED 3999 a b:1", lost},
      {"ASK ", lost},
      {"MOVED", lost},
      {"ASK", lost},
      {"ASKING", none},
      {"NOSCRIPT No matching script.", none},
      {"ERR MOVED 1 h:1", none},
      {"CROSSSLOT Keys in request don't hash to the same slot", none},
      {"", none},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.text) {
      const redirection r = read_redirection(row.text);
      BOOST_TEST((r.what == row.kind));
      if (row.kind == moved || row.kind == ask) BOOST_TEST((r.to == row.to));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace slot_map_test
