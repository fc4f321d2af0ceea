// A connection to a memcached server, without sockets: losses at every step, and several processes
// at one key.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <memory>

#include "fault_plays.hpp"
#include "memcached_client.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace memcached_faults_test {

using namespace weir::memcached::test;
using namespace std::chrono_literals;
using weir::detail::check_kind;

namespace {

using namespace weir::test;
using weir::error;
using weir::error_code;

/// Two processes at one server. What it has counted is what callers were told, up to those that
/// were told that nobody knows.
class memcached_player final : public player, core_fixture {
 public:
  memcached_player(manner m, std::vector<planned_fault> faults)
      : player({{when::at_first, {{"a"}, {"a"}, {"b"}, {"a"}, {"a"}, {"b"}}},
                {when::during_write, {{"a"}}},
                {when::in_quiet, {{"b"}}}},
               m, std::move(faults)) {
    options.silence_timeout = 1s;
    for (std::uint32_t seed : {1, 9}) {
      client& c = links_.emplace_back(server, options, seed);
      c.settles_at_once = false;
      c.how = m;
      c.pump();
    }
  }

 private:
  enum own : std::size_t { evict, restart, owns };

  std::vector<wire*> wires() override { return {&links_[0], &links_[1]}; }
  asked_check& ask(const question& q, wire* by) override {
    fake_check& c = checks.add(limit_3, q.subject, check_kind::record, 1, how.hasty ? 2s : 1h);
    // Which checks a value has counted, nobody knows but the client.
    asked_check& a = fates_.emplace_back(asked_check{.check = &c,
                                                     .by = by,
                                                     .told = q.told,
                                                     .where = asked_check::place::server,
                                                     .was_written = true});
    asked_.push_back(&a);
    static_cast<client*>(by)->submit(c);
    return a;
  }
  bool carries(wire& w) override { return !w.is_greeting(); }
  const std::vector<saying>& sayings() const override {
    static const std::vector<saying> all = {
        {"SERVER_ERROR out of memory storing object\r\n", error::out_of_memory},
        {"SERVER_ERROR object too large for cache\r\n", error::state_too_large},
        {"SERVER_ERROR out of something\r\n", error::server_error},
        {"CLIENT_ERROR bad data chunk\r\n", error::server_error, true},
        {"ERROR\r\n", error::server_error, true},
    };
    return all;
  }
  void say(const saying& s, wire&) override {
    server.refuses = s.text;
    for (wire* w : wires()) w->server->turns_away_then = s.ends;
  }
  std::string_view wrong_reply() const override { return "MN\r\nMN\r\n"; }
  std::string_view next_call() const override { return "\r\nm"; }

  std::size_t own_faults() const override { return owns; }
  bool is_possible(std::size_t which, const wire&) const override {
    return which == evict || (links_[0].is_up() && links_[1].is_up());
  }
  void strike_own(std::size_t which, wire&) override {
    forgets_ = true;
    if (which == evict) return server.items.clear();
    for (client& c : links_) lose(c), c.cut();
    server.restart();
  }
  void mend() override { server.refuses.clear(); }
  bool is_settled(const wire& w) const override {
    return w.is_at_rest() && static_cast<const client&>(w).core.line().lines() < 70u;
  }
  bool knows_fates() const override { return false; }
  void judge_all() override {
    if (forgets_) return;
    const std::int64_t stored = used(limit_3, "a") + used(limit_3, "b") + used(limit_3, "fresh");
    BOOST_TEST_REQUIRE(used(limit_3, "a") <= 3);
    BOOST_TEST_REQUIRE(stored >= checks.allowed());
    BOOST_TEST_REQUIRE(stored <= checks.allowed() + checks.unknown() +
                                     checks.failed(boost::asio::error::operation_aborted));
    if (faults_.empty()) BOOST_TEST_REQUIRE(checks.allowed() == 3 + 3 + 2);
  }

  std::deque<asked_check> fates_;
  std::deque<client> links_;
  bool forgets_ = false;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memcached_faults_suite, core_fixture)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step) {
  plays all;
  for (const manner m : manners()) {
    all.play_all("two processes", m, [](manner how, const std::vector<planned_fault>& faults) {
      return std::make_unique<memcached_player>(how, faults);
    });
  }
  all.expect_all();
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
