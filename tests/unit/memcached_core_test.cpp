// A connection to a memcached server, without sockets: compare and swap, deadlines, clocks, errors.
#include <random>

#include "memcached_client.hpp"
#include "support/run.hpp"

namespace memcached_core_test {

using namespace weir;
using namespace weir::test;
using namespace weir::memcached::test;
using weir::detail::cancel_scope;
using weir::detail::check_kind;
using weir::memcached::connection_core;
using weir::memcached::pipeline;

using fixture = core_fixture;

BOOST_FIXTURE_TEST_SUITE(memcached_core_suite, fixture)

BOOST_AUTO_TEST_CASE(checks_of_one_key_travel_together) {
  client one(server, options);
  one.settle();
  for (int i = 0; i < 5; ++i) one.submit(checks.add(limit_3, "a"));
  one.settle();
  BOOST_TEST(checks.all_finished_once());
  BOOST_TEST(checks.allowed() == 3);
  BOOST_TEST(checks.refused() == 2);
  // The first write carried the read for all five, since nothing had been sent before.
  BOOST_TEST(server.gets == 1);
  BOOST_TEST(server.stores == 1);
  one.submit(checks.add(limit_3, "a"));
  one.settle();
  BOOST_TEST(server.stores == 1);  // refused: nothing is written
  BOOST_TEST(one.core.line().lines() == 0u);
}

BOOST_AUTO_TEST_CASE(keys_do_not_wait_for_each_other) {
  client one(server, options);
  // A new connection begins with one request under way.
  one.submit(checks.add(limit_3, "first"));
  one.settle();
  one.submit(checks.add(limit_3, "first"));
  one.settle();
  server.gets = server.stores = 0;
  for (const char* subject : {"a", "b", "c", "d"}) one.submit(checks.add(limit_3, subject));
  one.send();  // the read of the first
  one.send();  // those of the others
  one.serve();
  one.receive();
  one.send();
  one.serve();
  BOOST_TEST(server.gets == 4);
  BOOST_TEST(server.stores == 4);
  one.settle();
  BOOST_TEST(checks.allowed() == 6);
}

BOOST_AUTO_TEST_CASE(a_lost_swap_is_repeated) {
  client one(server, options, 1), two(server, options, 2);
  one.settle();
  two.settle();
  one.submit(checks.add(limit_3, "a"));
  two.submit(checks.add(limit_3, "a"));
  for (client* c : {&one, &two}) {
    c->send();
    c->serve();
    c->receive();  // both know the same state
  }
  for (client* c : {&one, &two}) {
    c->send();
    c->serve();
  }
  BOOST_TEST(server.swaps_lost == 1);
  one.settle();
  two.settle();
  BOOST_TEST(checks.allowed() == 2);
  BOOST_TEST(used(limit_3, "a") == 2);
}

BOOST_AUTO_TEST_CASE(swaps_that_are_always_lost_end_in_contention) {
  client one(server, options);
  one.settle();
  one.submit(checks.add(limit_3, "a"));
  for (int i = 0; i < 2000 && checks.all().front().finished == 0; ++i) {
    if (one.serve()) {
      for (auto& [key, item] : server.items) ++item.cas;  // somebody was faster
      if (server.items.empty()) server.items["weir:{r:a}"] = {"", 1};
    }
    if (!one.connect() && !one.send() && !one.receive()) one.wake();
  }
  WEIR_TEST_ERROR(checks.all().front().ec, error::store_contention);
  BOOST_TEST(server.gets == int{pipeline::max_attempts});

  // The deadline may be nearer.
  one.submit(checks.add(limit_3, "a", check_kind::record, 1, 5ms));
  for (int i = 0; i < 2000 && checks.all().back().finished == 0; ++i) {
    if (one.serve()) {
      for (auto& [key, item] : server.items) ++item.cas;
    }
    if (!one.connect() && !one.send() && !one.receive()) one.wake();
  }
  WEIR_TEST_ERROR(checks.all().back().ec, error::store_contention);
}

// Calls that had lost a swap ended with store_contention, although the server had died since.
BOOST_AUTO_TEST_CASE(a_lost_swap_is_no_reason_any_more_once_the_server_is_gone) {
  client one(server, options);
  one.settle();
  auto& c = checks.add(limit_3, "a");
  one.submit(c);
  server.items["weir:{r:a}"] = {"", 1};
  one.send();
  one.serve();
  one.receive();
  BOOST_TEST_REQUIRE(one.send());
  ++server.items.begin()->second.cas;  // somebody was faster
  one.serve();
  one.receive();
  BOOST_TEST_REQUIRE(server.swaps_lost == 1);
  one.refuses_connections = true;
  BOOST_TEST_REQUIRE(one.cut());
  for (int i = 0; i < 10'000 && c.finished == 0; ++i) one.step();
  WEIR_TEST_ERROR(c.ec, error::connection_refused);
}

// The ceiling of the first pause was 1 ms: the lost swap was counted before the pause.
BOOST_AUTO_TEST_CASE(the_pause_behind_a_lost_swap_is_short_at_first_and_doubles) {
  constexpr std::array<std::int64_t, 8> ceilings{500,   1'000,  2'000,  4'000,
                                                 8'000, 16'000, 16'000, 16'000};
  std::array<std::int64_t, 8> longest{};  // microseconds
  std::mt19937 seeds(1);
  for (int run = 0; run < 200; ++run) {
    server.restart();
    client one(server, options, static_cast<std::uint32_t>(seeds()));
    one.settle();
    auto& c = checks.add(limit_3, "a");
    one.submit(c);
    for (std::size_t i = 0; i < ceilings.size(); ++i) {
      BOOST_TEST_REQUIRE(one.send());
      one.serve();
      one.receive();
      server.items["weir:{r:a}"] = {"", 1000 + i};  // somebody was faster
      BOOST_TEST_REQUIRE(one.send());
      one.serve();
      one.receive();
      const std::chrono::nanoseconds pause = one.core.line().wakeup() - one.now;
      BOOST_TEST(pause.count() <= 1000 * ceilings[i]);
      longest[i] = std::max<std::int64_t>(longest[i], pause.count() / 1000);
      one.pass_time(std::chrono::duration_cast<std::chrono::microseconds>(pause));
    }
    one.settle();
    BOOST_TEST(c.answer.allowed);
  }
  BOOST_TEST(server.swaps_lost == 1600);
  // Random up to the ceiling.
  for (std::size_t i = 0; i < ceilings.size(); ++i) BOOST_TEST(longest[i] > ceilings[i] * 9 / 10);
}

BOOST_AUTO_TEST_CASE(what_is_unknown_after_a_loss_and_what_is_tried_again) {
  client one(server, options);
  one.settle();
  // The read was sent: tried again.
  one.submit(checks.add(limit_3, "a"));
  one.send();
  one.cut();
  one.settle();
  BOOST_TEST(checks.allowed() == 1);
  // Half of the store was sent: tried again.
  one.submit(checks.add(limit_3, "a"));
  one.send();
  one.serve();
  one.receive();
  one.send(20);
  one.cut();
  one.settle();
  BOOST_TEST(checks.allowed() == 2);
  BOOST_TEST(used(limit_3, "a") == 2);
  // All of it was sent: never again, whatever the server has done.
  one.submit(checks.add(limit_3, "a"));
  one.send();
  one.serve();
  one.receive();
  one.send();
  one.cut();
  one.settle();
  WEIR_TEST_ERROR(checks.all().back().ec, error::outcome_unknown);
  BOOST_TEST(used(limit_3, "a") == 3);
  BOOST_TEST(server.stores == 3);
}

// A restarted server counts its CAS numbers from 1 again: a number that was read before may belong
// to another value now.
BOOST_AUTO_TEST_CASE(a_cas_number_is_not_used_on_another_connection) {
  client one(server, options, 1), two(server, options, 2);
  one.settle();
  one.submit(checks.add(limit_3, "a"));
  one.settle();
  auto& decided = checks.add(limit_3, "a");
  one.submit(decided);
  one.send();
  one.serve();
  one.submit(checks.add(limit_3, "b"));  // its write is under way
  one.receive();                         // so the swap of "a" waits for its end
  BOOST_TEST((decided.stage == weir::detail::check_stage::sent));
  one.cut();
  server.restart();
  two.settle();
  for (int i = 0; i < 3; ++i) two.submit(checks.add(limit_3, "a"));
  two.settle();
  one.settle();
  BOOST_TEST(decided.finished == 1);
  BOOST_TEST(!decided.ec.failed());
  BOOST_TEST(!decided.answer.allowed);
  BOOST_TEST(used(limit_3, "a") == 3);
}

BOOST_AUTO_TEST_CASE(a_cancelled_check_leaves_its_place) {
  client one(server, options);
  one.settle();
  auto& first = checks.add(limit_3, "a");
  auto& other = checks.add(limit_3, "b");
  one.submit(first);
  one.submit(other);
  one.send();
  one.cancel(first);
  WEIR_TEST_ERROR(first.ec, boost::asio::error::operation_aborted);
  one.settle();
  BOOST_TEST(!other.ec.failed());
  BOOST_TEST(other.answer.allowed);
  BOOST_TEST(used(limit_3, "a") == 0);  // it had only read

  auto& late = checks.add(limit_3, "a");
  one.submit(late);
  one.send();
  one.serve();
  one.receive();
  one.cancel(late, cancel_scope::only_unsent);
  BOOST_TEST(late.finished == 0);
  one.cancel(late);
  BOOST_TEST(late.finished == 1);
  one.settle();
  BOOST_TEST(used(limit_3, "a") == 1);
  BOOST_TEST(checks.all_finished_once());
}

BOOST_AUTO_TEST_CASE(deadlines_say_whether_it_may_have_counted) {
  client one(server, options);
  one.settle();
  auto& unsent = checks.add(limit_3, "a", check_kind::record, 1, 10ms);
  one.submit(unsent);
  one.send();
  one.pass_time(11ms);
  WEIR_TEST_ERROR(unsent.ec, error::timed_out);
  one.serve();
  one.receive();
  auto& sent = checks.add(limit_3, "a", check_kind::record, 1, 10ms);
  one.submit(sent);
  one.send();
  one.serve();
  one.receive();
  one.pass_time(11ms);
  WEIR_TEST_ERROR(sent.ec, error::no_reply);
  BOOST_TEST(!sent.answer.allowed);
  one.settle();
  BOOST_TEST(used(limit_3, "a") == 1);
}

BOOST_AUTO_TEST_CASE(keys_whose_checks_are_gone_take_no_room) {
  client one(server, options);
  one.refuses_connections = true;
  for (int i = 0; i < 5000; ++i) {
    auto& c = checks.add(limit_3, std::to_string(i), check_kind::record, 1, 1ms);
    one.submit(c);
    one.pass_time(2ms);
  }
  BOOST_TEST(one.core.line().pending() == 0u);
  BOOST_TEST(one.core.line().lines() < 200u);
}

BOOST_AUTO_TEST_CASE(a_clock_that_differs_fails_calls_until_it_is_right_again) {
  for (const std::int64_t wrong : {-3'500'000, 5'500'000}) {
    server.restart();
    client one(server, options);
    one.clock_offset = wrong;
    one.settle();
    auto& refused = checks.add(limit_3, "a");
    one.submit(refused);
    WEIR_TEST_ERROR(refused.ec, error::clock_skew);
    one.clock_offset = 0;
    for (int i = 0; i < 100 && one.core.line().is_skewed(); ++i) {
      one.pass_time(100ms);
      while (one.send() || one.serve() || one.receive()) {
      }
    }
    auto& right = checks.add(limit_3, "a");
    one.submit(right);
    one.settle();
    BOOST_TEST(!right.ec.failed());

    // The clock steps while the connection stands: the next reply shows it.
    one.clock_offset = wrong;
    auto& stepped = checks.add(limit_3, "a");
    one.submit(stepped);
    one.settle();
    WEIR_TEST_ERROR(stepped.ec, error::clock_skew);
    BOOST_TEST(used(limit_3, "a") == 1);
  }
  // What the server's whole seconds allow.
  for (const std::int64_t right : {-2'900'000, 0, 2'000'000, 4'900'000}) {
    client one(server, options);
    one.clock_offset = right;
    one.settle();
    BOOST_TEST(!one.core.line().is_skewed());
  }
}

// A long state's expiry is a time of the server's clock. It was told by the caller's, and a server
// whose clock may be an hour ahead dropped the state an hour early.
BOOST_AUTO_TEST_CASE(a_long_state_lasts_by_the_clock_of_the_server) {
  constexpr std::int64_t hour = 3600, days_60 = 60 * 24 * hour;
  const auto core = make_core("r", fixed_window{.limit = 3, .window = 60 * 24h});
  options.max_clock_skew = {};
  for (const std::int64_t ahead : {-hour, std::int64_t{0}, hour}) {
    server.restart();
    client one(server, options);
    one.clock_offset = -ahead * 1'000'000;
    one.settle();
    one.submit(checks.add(core, "a"));
    one.settle();
    BOOST_TEST(checks.all().back().answer.allowed);
    const std::int64_t left = server.last_expiry - server.started;
    BOOST_TEST(left >= days_60 + 2);
    BOOST_TEST(left <= days_60 + 15 + std::max<std::int64_t>(0, -ahead));
  }
}

BOOST_AUTO_TEST_CASE(the_clock_is_asked_for_now_and_then) {
  client one(server, options);
  one.settle();
  BOOST_TEST(server.clocks == 1);
  for (int i = 0; i < 600; ++i) {
    one.pass_time(100ms);
    while (one.send() || one.serve() || one.receive()) {
    }
  }
  BOOST_TEST(server.clocks >= 5);
  BOOST_TEST(server.clocks <= 8);
}

BOOST_AUTO_TEST_CASE(other_servers_are_not_memcached) {
  server.enables_cas = false;
  client one(server, options);
  auto& c = checks.add(limit_3, "a", check_kind::record, 1, 1s);
  one.submit(c);
  for (int i = 0; i < 10'000 && c.finished == 0; ++i) one.step();
  WEIR_TEST_ERROR(c.ec, error::not_memcached);
}

// No call could count, and the server ran the bytes of values as commands.
BOOST_AUTO_TEST_CASE(a_server_that_takes_values_in_the_old_form_gets_none) {
  for (const auto& [version, is_old] : {std::pair("1.6.0", true), std::pair("1.6.9_2", true),
                                        std::pair("1.6.10", false), std::pair("1.6.45_2", false)}) {
    server.restart();
    server.version = version;
    client one(server, options);
    auto& c = checks.add(limit_3, "a", check_kind::record, 1, 1s);
    one.submit(c);
    for (int i = 0; i < 10'000 && c.finished == 0; ++i) one.step();
    WEIR_TEST_ERROR(c.ec, is_old ? error_code(error::not_memcached) : error_code());
    BOOST_TEST((server.stores == 0) == is_old);
    server.stores = 0;
  }
}

// It was said not to speak memcached's protocol.
BOOST_AUTO_TEST_CASE(a_server_without_a_connection_left_is_named_as_such) {
  client one(server, options);
  auto& c = checks.add(limit_3, "a", check_kind::record, 1, 1s);
  one.submit(c);
  while (!one.connect()) one.wake();
  BOOST_TEST((one.send() && one.serve()));
  one.say("ERROR Too many open connections\r\n");
  one.pass_time(1s);
  WEIR_TEST_ERROR(c.ec, error::server_error);
}

BOOST_AUTO_TEST_CASE(a_server_with_small_items_lowers_the_bound) {
  server.item_size_max = 4096;
  const auto log = make_core("r", sliding_log{.limit = 5000, .window = 24h});
  client one(server, options);
  one.settle();
  for (int i = 0; i < 2000; ++i) {
    one.submit(checks.add(log, "a"));
    one.now += 1ms;
    one.settle();
  }
  BOOST_TEST(checks.failed(error::state_too_large) > 0);
  BOOST_TEST(checks.allowed() > 300);
  for (const auto& [key, item] : server.items) BOOST_TEST(item.value.size() <= 4096u - 1024);
}

BOOST_AUTO_TEST_CASE(an_error_reply_fails_only_its_own_checks) {
  client one(server, options);
  one.settle();
  auto& stored = checks.add(limit_3, "b");
  one.submit(stored);
  one.settle();
  server.refuses_stores = "SERVER_ERROR out of memory storing object\r\n";
  auto& failed = checks.add(limit_3, "a");
  auto& read = checks.add(limit_3, "b", check_kind::fetch);
  one.submit(failed);
  one.submit(read);
  one.settle();
  WEIR_TEST_ERROR(failed.ec, error::out_of_memory);
  BOOST_TEST(!read.ec.failed());
  BOOST_TEST(one.opens == 1);
  server.refuses_stores = "CLIENT_ERROR bad data chunk\r\n";
  auto& odd = checks.add(limit_3, "a");
  one.submit(odd);
  one.settle();
  WEIR_TEST_ERROR(odd.ec, error::server_error);
  BOOST_TEST(one.opens == 2);  // what follows such a reply may belong to nothing
}

BOOST_AUTO_TEST_CASE(close_ends_all_checks) {
  client one(server, options);
  one.settle();
  auto& sent = checks.add(limit_3, "a");
  one.submit(sent);
  one.send();
  one.serve();
  one.receive();
  auto& waiting = checks.add(limit_3, "b");
  one.submit(waiting);
  one.core.close(one.now);
  one.pump();
  WEIR_TEST_ERROR(sent.ec, error::outcome_unknown);
  WEIR_TEST_ERROR(waiting.ec, error::store_closed);
  auto& later = checks.add(limit_3, "c");
  one.submit(later);
  WEIR_TEST_ERROR(later.ec, error::store_closed);
  one.core.stop_when_idle();
  one.pump();
  BOOST_TEST((one.core.current() == connection_core::state::stopped));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_core_test
