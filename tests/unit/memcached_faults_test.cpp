// A connection to a memcached server, without sockets: losses at every step, and several processes
// at one key.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>

#include "memcached_client.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace memcached_faults_test {

using namespace weir::memcached::test;
using namespace std::chrono_literals;
using weir::detail::check_kind;

BOOST_FIXTURE_TEST_SUITE(memcached_faults_suite, core_fixture)

// A run as it is meant to go tells its steps; then it is played again with a fault at each of them.
BOOST_AUTO_TEST_CASE(a_fault_at_every_step) {
  enum class fault {
    none,
    cut,
    cut_after_serving,
    piece_and_cut,
    deadline,
    cancel,
    evict,
    restart,
    no_connection,
    half_a_reply,
    garbage,
    garbage_halfway,
    wrong_reply,
    silence,
    out_of_memory,
    too_large,
    server_error,
    bad_request,
    unknown_request,
    closed,
    abandoned,
    count
  };
  // Each has struck somewhere.
  std::map<fault, int> struck;
  const auto play = [&](fault what, int at) {
    server = {};
    checks = {};
    client one(server, options), two(server, options, 9);
    int steps = 0;
    client* ended = nullptr;
    std::deque<weir::test::fake_check*> asked;
    for (const char* subject : {"a", "a", "b", "a"}) {
      for (client* c : {&one, &two}) {
        auto& check = checks.add(limit_3, subject, check_kind::record, 1, 2s);
        asked.push_back(&check);
        c->submit(check);
      }
    }
    for (bool going = true; going && steps < 10'000;) {
      going = false;
      for (client* c : {&one, &two}) {
        if (what == fault::abandoned && c == ended) continue;
        if (steps++ == at) {
          switch (what) {
            case fault::none:
              break;
            case fault::cut:
              c->cut();
              break;
            case fault::cut_after_serving:
              c->send();
              c->serve();
              c->cut();
              break;
            case fault::piece_and_cut:
              c->send(23);
              c->cut();
              break;
            case fault::deadline:
              c->pass_time(2s);
              break;
            case fault::cancel:
              for (auto* one_check : asked) c->cancel(*one_check);
              break;
            case fault::evict:
              server.items.clear();
              break;
            case fault::restart:
              one.cut();
              two.cut();
              server.restart();
              break;
            case fault::no_connection:
              c->cut();
              c->refuses_connections = true;
              while (!c->connect() && c->wake()) {
              }
              c->refuses_connections = false;
              break;
            case fault::half_a_reply:
              struck[what] += c->garble("", true);
              c->cut();
              break;
            case fault::garbage:
              struck[what] += c->garble("HTTP/1.1 400 Bad Request\r\n\r\n", false);
              break;
            case fault::garbage_halfway:
              struck[what] += c->garble("\n" + std::string(2000, '?') + "\r\n", true);
              break;
            case fault::wrong_reply:
              struck[what] += c->garble("MN\r\nMN\r\n", false);
              break;
            case fault::silence:
              c->is_silent = true;
              break;
            case fault::out_of_memory:
              server.refuses = "SERVER_ERROR out of memory storing object\r\n";
              break;
            case fault::too_large:
              server.refuses = "SERVER_ERROR object too large for cache\r\n";
              break;
            case fault::server_error:
              server.refuses = "SERVER_ERROR out of something\r\n";
              break;
            case fault::bad_request:
              server.refuses = "CLIENT_ERROR bad data chunk\r\n";
              break;
            case fault::unknown_request:
              server.refuses = "ERROR\r\n";
              break;
            case fault::closed:
              c->core.close(c->now);
              c->core.stop_when_idle();
              c->act();
              ended = c;
              break;
            case fault::abandoned:
              for (auto left = c->core.abandon(); !left.empty(); left.pop_front()) {
                left.front().finish(weir::detail::delivery::discard);
              }
              ended = c;
              break;
            case fault::count:
              break;
          }
        }
        going = c->step() || going;
      }
    }
    BOOST_TEST_CONTEXT("fault " << static_cast<int>(what) << " at step " << at) {
      BOOST_TEST_REQUIRE(checks.all_finished_once());
      const bool forgets = what == fault::evict || what == fault::restart;
      BOOST_TEST_REQUIRE(checks.allowed() <= (forgets ? 8 : 4 + 1));
      if (!forgets) {
        const std::int64_t stored = used(limit_3, "a") + used(limit_3, "b");
        BOOST_TEST_REQUIRE(used(limit_3, "a") <= 3);
        BOOST_TEST_REQUIRE(stored >= checks.allowed());
        BOOST_TEST_REQUIRE(stored <= checks.allowed() + checks.unknown() +
                                         checks.failed(boost::asio::error::operation_aborted));
      }
      server.refuses.clear();
      one.is_silent = two.is_silent = false;  // what was held up comes now
      // Both connections serve again.
      for (client* c : {&one, &two}) {
        if (c == ended) continue;
        auto& last = checks.add(limit_3, "z");
        c->submit(last);
        c->settle();
        BOOST_TEST_REQUIRE(!last.ec.failed(), last.ec.message());
        BOOST_TEST_REQUIRE(c->core.line().pending() == 0u);
        BOOST_TEST_REQUIRE(c->core.line().lines() < 70u);
      }
    }
    return steps;
  };
  const int steps = play(fault::none, -1);
  BOOST_TEST(checks.allowed() == 5 + 2);
  BOOST_TEST(steps > 30);
  for (int at = 0; at < steps; ++at) {
    for (int what = 1; what < static_cast<int>(fault::count); ++what) {
      play(static_cast<fault>(what), at);
    }
  }
  for (const fault what :
       {fault::half_a_reply, fault::garbage, fault::garbage_halfway, fault::wrong_reply}) {
    BOOST_TEST(struck[what] > 3, "fault " << static_cast<int>(what));
  }
}

// A value that was asked for before a call may be older than what the caller knows. The call was
// refused by it, though another process had made room, and said so, before the call was made.
BOOST_AUTO_TEST_CASE(a_call_is_refused_by_no_value_that_was_asked_for_before_it) {
  for (const bool is_full : {true, false}) {
    server = {};
    checks = {};
    client one(server, options), two(server, options, 9);
    one.settle();
    two.settle();
    for (int i = 0; is_full && i < 3; ++i) one.submit(checks.add(limit_3, "a"));
    one.settle();
    auto& early = checks.add(limit_3, "a", check_kind::fetch);
    one.submit(early);
    one.send();
    one.serve();
    // Meanwhile the other process changes the value, and knows that it has.
    auto& meanwhile = checks.add(limit_3, "a", is_full ? check_kind::reset : check_kind::record, 2);
    two.submit(meanwhile);
    two.settle();
    BOOST_TEST(meanwhile.finished == 1);
    auto& late = checks.add(limit_3, "a", is_full ? check_kind::record : check_kind::reset);
    one.submit(late);
    one.receive();
    BOOST_TEST(early.finished == 1);  // its answer was right when it was asked
    BOOST_TEST(early.answer.used == (is_full ? 3 : 0));
    BOOST_TEST(late.finished == 0);
    one.settle();
    BOOST_TEST(late.finished == 1);
    BOOST_TEST(!late.ec);
    BOOST_TEST(late.answer.allowed == is_full);
    BOOST_TEST(used(limit_3, "a") == (is_full ? 1 : 0));
  }
}

// Three processes, bytes in pieces, losses, cancellation and deadlines at random. What the server
// has counted is what callers were told, up to those that were told that nobody knows.
BOOST_AUTO_TEST_CASE(three_processes_and_everything_at_random) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  weir::test::random_source random(seed, 7300);
  std::int64_t allowed = 0, unknown = 0, refused = 0;
  int lost = 0;
  for (int round = 0; round < (weir::test::is_sanitized ? 60 : 300); ++round) {
    server = {};
    const std::int64_t limit = random.between(1, 40);
    const auto core = weir::test::make_core("r", weir::fixed_window{.limit = limit, .window = 24h});
    std::map<std::string, callers> by_subject;
    std::deque<client> clients;
    for (std::uint32_t i = 0; i < 3; ++i) clients.emplace_back(server, options, 100 + i);
    const std::string subjects[] = {"a", "b"};
    const auto size_of_piece = [&] {
      return static_cast<std::size_t>(random.one_in(3) ? random.between(1, 60) : 1'000'000);
    };
    for (int i = 0; i < 400; ++i) {
      client& c = clients[static_cast<std::size_t>(random.between(0, 2))];
      switch (random.between(0, 11)) {
        case 0:
        case 1: {
          const std::string& subject = random.pick(subjects);
          const auto timeout = random.one_in(5) ? 3ms : 2000ms;
          c.submit(by_subject[subject].add(core, subject, check_kind::record, 1, timeout));
          break;
        }
        case 2:
          c.pass_time(std::chrono::microseconds(random.magnitude(3000)));
          break;
        case 3:
          if (random.one_in(6)) c.cut();
          break;
        case 4:
          if (random.one_in(4)) {
            callers& some = by_subject[random.pick(subjects)];
            if (some.size() > 0) {
              auto& last = some.all().back();
              for (client& each : clients) {
                if (last.finished == 0) each.cancel(last);
              }
            }
          }
          break;
        case 5:
          c.wake();
          break;
        case 6:
        case 7:
          c.send(size_of_piece());
          break;
        case 8:
        case 9:
          c.serve();
          break;
        default:
          c.connect();
          c.receive(size_of_piece());
          break;
      }
    }
    for (bool going = true; going;) {
      going = false;
      for (client& c : clients) going = c.step() || going;
    }
    for (auto& [subject, told] : by_subject) {
      BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed << " round " << round << " subject "
                                           << subject) {
        const std::int64_t stored = used(core, subject);
        BOOST_TEST_REQUIRE(told.all_finished_once());
        BOOST_TEST_REQUIRE(stored <= limit);
        BOOST_TEST_REQUIRE(stored >= told.allowed());
        const std::int64_t open = told.unknown() +
                                  told.failed(boost::asio::error::operation_aborted);
        BOOST_TEST_REQUIRE(stored <= told.allowed() + open);
        if (told.refused() > 0) BOOST_TEST_REQUIRE(stored == limit);
        allowed += told.allowed();
        refused += told.refused();
        unknown += told.unknown();
      }
    }
    lost += server.swaps_lost;
  }
  BOOST_TEST_MESSAGE(allowed << " allowed, " << refused << " refused, " << unknown << " unknown, "
                             << lost << " swaps lost");
  BOOST_TEST(allowed > 100);
  BOOST_TEST(refused > 10);
  BOOST_TEST(unknown > 10);
  BOOST_TEST(lost > 15);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_faults_test
