// The addresses that the nodes of a Redis Cluster announce, and TLS: the certificates show which
// address a connection was made for.
#include "redis/slot.hpp"
#include "support/fault_proxy.hpp"
#include "support/limiter_fixture.hpp"
#include "support/load.hpp"
#include "support/redis_cluster.hpp"
#include "support/tls_certificates.hpp"

namespace cluster_addresses_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t masters = 3;

/// The nodes themselves reach each other's bus there.
constexpr const char* outside = "127.0.0.2";
const std::vector<std::string> behind_relays = {"--bind", "127.0.0.1", outside};

std::uint16_t slot_of(const std::string& subject) {
  return weir::redis::slot_of_tag("r:" + subject);
}

struct fixture : limiter_fixture {
  certificate_authority ca;
  redis_server_tls showing(const std::string& names) {
    const auto files = ca.issue(names);
    return {.certificate_file = files.certificate, .key_file = files.key, .ca_file = ca.file()};
  }
  limiter on(redis_options o) {
    o.timeout = 20s;
    o.backoff_min = 1ms;
    o.backoff_max = 50ms;
    o.breaker_failures = 0;
    if (o.tls) o.tls_ca_file = ca.file();
    return limiter(make_redis_store(io.get_executor(), o), "r",
                   fixed_window{.limit = 1'000'000, .window = 24h});
  }
  /// One subject of each master.
  static std::vector<std::string> subjects_of(redis_cluster& cluster) {
    std::vector<std::string> found(masters);
    for (std::size_t i = 0; i < masters; ++i) {
      const auto slots = cluster.slots_of(i);
      for (int n = 0; found[i].empty(); ++n) {
        const std::string subject = "s" + std::to_string(n);
        if (std::ranges::binary_search(slots, slot_of(subject))) found[i] = subject;
      }
    }
    return found;
  }
  /// Each node announces a relay of its own, and is reached through it.
  std::vector<std::unique_ptr<fault_proxy>> announce_relays(redis_cluster& cluster) {
    std::vector<std::unique_ptr<fault_proxy>> relays;
    for (std::size_t i = 0; i < masters; ++i) {
      relays.push_back(std::make_unique<fault_proxy>(io, cluster.node(i), outside));
      redis_client node(cluster.node(i));
      node.must("CONFIG", "SET", "cluster-announce-port", std::to_string(relays[i]->port()));
      node.must("CONFIG", "SET", "cluster-announce-ip", outside);
    }
    wait_until_announced(cluster, outside);
    return relays;
  }
  outcome record(const limiter& l, const std::string& subject) {
    return outcome_of([&](auto h) { l.record(subject, h); });
  }
  /// Calls to all masters, while a slot moves there and back: MOVED and ASK name addresses, too.
  void use(redis_cluster& cluster, const limiter& l) {
    load all(io, l, 20);
    all.run_on(3);
    const std::uint16_t slot = slot_of("subject 0");
    const std::size_t from = cluster.owner_of(slot), to = (from + 1) % masters;
    for (const auto& [source, target] : {std::pair(from, to), std::pair(to, from)}) {
      cluster.begin_move(slot, source, target);
      all.run_on(1);
      cluster.move_keys(slot, source, target, 1);
      all.run_on(1);
      cluster.end_move(slot, source, target);
      all.run_on(1);
    }
    all.end();
    for (const auto& c : all.callers) {
      BOOST_TEST(c->failures == 0);
      const auto counted = answer([&](auto h) { l.fetch(c->subject, h); }).used;
      BOOST_TEST(counted == c->successes);
    }
    for (const auto& c : all.callers) answer([&](auto h) { l.reset(c->subject, h); });
  }
  static void set(redis_cluster& cluster, const std::string& option, const std::string& value) {
    for (std::size_t i = 0; i < masters; ++i) {
      redis_client(cluster.node(i)).must("CONFIG", "SET", option, value);
    }
  }
  /// Waits until every node tells every node's host as `host`; empty: as unknown.
  static void wait_until_announced(redis_cluster& cluster, const std::string& host) {
    redis_cluster::wait_until(
        [&] {
          for (std::size_t i = 0; i < masters; ++i) {
            const reply map = redis_client(cluster.node(i)).must("CLUSTER", "SLOTS");
            for (const reply& range : map.children) {
              const reply& told = range.children.at(2).children.at(0);
              if (told.text != host || told.is_null() != host.empty()) return false;
            }
          }
          return true;
        },
        "the hosts are announced");
  }
  static redis_options seeded(const redis_cluster& cluster, const std::string& host) {
    redis_options o = parse_redis_url(cluster.url());
    for (auto& seed : o.cluster_seeds) seed.host = host;
    return o;
  }
};

BOOST_FIXTURE_TEST_SUITE(cluster_addresses_suite, fixture)

BOOST_AUTO_TEST_CASE(all_masters_are_served_over_tls_and_a_wrong_certificate_is_told) {
  redis_cluster cluster(masters, 0, {}, showing("IP:127.0.0.1"));
  const auto subjects = subjects_of(cluster);
  const limiter before = on(parse_redis_url(cluster.url()));
  use(cluster, before);
  for (const std::string& s : subjects) BOOST_TEST(!record(before, s).ec.failed());
  for (std::size_t i = 0; i < masters; ++i) {
    BOOST_TEST(redis_client(cluster.node(i)).must("DBSIZE").integer == 1);
  }

  // A node that prefers names and has none tells "?", and its address beside it.
  set(cluster, "cluster-preferred-endpoint-type", "hostname");
  wait_until_announced(cluster, "?");
  use(cluster, on(parse_redis_url(cluster.url())));

  const auto other = ca.issue("IP:127.0.0.9");
  redis_client(cluster.node(1)).must("CONFIG", "SET", "tls-cert-file", other.certificate);
  const limiter after = on(parse_redis_url(cluster.url()));
  BOOST_TEST(record(after, subjects[0]).d.used == 2);
  WEIR_TEST_ERROR(record(after, subjects[1]).ec, error::tls_failed);
  BOOST_TEST(record(after, subjects[2]).d.used == 2);
}

// The certificates hold nothing but the name.
BOOST_AUTO_TEST_CASE(nodes_are_reached_at_the_names_that_they_announce_or_where_they_were_asked) {
  redis_cluster cluster(masters, 0, {}, showing("DNS:localhost"));
  const auto subjects = subjects_of(cluster);
  // They announce addresses: the seed can be asked, the masters cannot be used.
  WEIR_TEST_ERROR(record(on(seeded(cluster, "localhost")), subjects[0]).ec, error::tls_failed);

  set(cluster, "cluster-announce-hostname", "localhost");
  set(cluster, "cluster-preferred-endpoint-type", "hostname");
  wait_until_announced(cluster, "localhost");
  use(cluster, on(seeded(cluster, "localhost")));

  set(cluster, "cluster-preferred-endpoint-type", "unknown-endpoint");
  wait_until_announced(cluster, "");
  use(cluster, on(seeded(cluster, "localhost")));
}

// As behind NAT: each node announces the address and port of a relay.
BOOST_AUTO_TEST_CASE(nodes_behind_relays_are_reached_through_them) {
  redis_cluster cluster(masters, 0, behind_relays);
  const auto relays = announce_relays(cluster);
  redis_options o = parse_redis_url(cluster.url());
  o.cluster_seeds.resize(1);
  o.client_name = "through";
  const limiter l = on(o);
  use(cluster, l);
  for (std::size_t i = 0; i < masters; ++i) {
    BOOST_TEST(relays[i]->counts().bytes[static_cast<std::size_t>(way::requests)] > 0u);
    // Nobody came past the relays. The seed was asked at its own address, and then left.
    poll_until([&] {
      const std::string clients = redis_client(cluster.node(i)).must("CLIENT", "LIST").text;
      std::size_t ours = 0;
      for (auto at = clients.find("name=through"); at != clients.npos;
           at = clients.find("name=through", at + 1)) {
        ++ours;
      }
      return ours == relays[i]->open_connections();
    });
  }
}

// The only seed, a master itself, is reached no more while slots of the others move: they go on,
// and the map comes from them.
BOOST_AUTO_TEST_CASE(the_seed_is_cut_off_from_the_client_under_load) {
  redis_cluster cluster(masters, 0, behind_relays);
  const auto relays = announce_relays(cluster);
  redis_options o = parse_redis_url(cluster.url());
  o.cluster_seeds = {{outside, static_cast<std::uint16_t>(relays[0]->port())}};
  o.silence_timeout = 500ms;
  const limiter l = on(o);
  load all(io, l, 20);
  all.run_on(3);

  const auto seed_slots = cluster.slots_of(0);
  const auto is_cut_off = [&](const caller& c) {
    return std::ranges::binary_search(seed_slots, slot_of(c.subject));
  };
  const fault swallow{.what = fault::kind::half_open};
  relays[0]->strike(swallow);
  relays[0]->plan([&](std::size_t) { return std::vector{swallow}; });
  all.mark();
  for (const auto& c : all.callers) {
    if (is_cut_off(*c)) continue;
    const std::uint16_t slot = slot_of(c->subject);
    const std::size_t from = cluster.owner_of(slot);
    cluster.move(slot, from, 3 - from);
  }
  run_until(io, [&] {
    return std::ranges::all_of(all.callers, [&](const auto& c) {
      return is_cut_off(*c) || c->successes >= c->successes_at_mark + 5;
    });
  });
  // The client misses replies, and asks another master than the seed for the map.
  redis_client first(cluster.node(1)), second(cluster.node(2));
  for (redis_client* c : {&first, &second}) c->must("CONFIG", "RESETSTAT");
  poll_until([&] {
    return std::ranges::any_of(std::array{&first, &second}, [](redis_client* c) {
      return c->must("INFO", "commandstats").text.find("cmdstat_cluster") != std::string::npos;
    });
  });
  relays[0]->lift();
  all.run_on(3);
  all.end();

  std::size_t cut_off = 0;
  std::int64_t unknown = 0;
  for (const auto& c : all.callers) {
    const std::int64_t used = record(l, c->subject).d.used - 1;
    BOOST_TEST(used >= c->successes);
    BOOST_TEST(used <= c->successes + c->failures);
    cut_off += is_cut_off(*c);
    unknown += c->failures;
  }
  BOOST_TEST_MESSAGE(cut_off << " of 20 callers were cut off, " << unknown << " calls unknown");
  BOOST_TEST((cut_off > 0 && cut_off < 20));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_addresses_test
