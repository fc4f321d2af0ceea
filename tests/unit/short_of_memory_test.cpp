// Calls in which one allocation fails.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/alarm.hpp"
#include "check/store_backend.hpp"
#include "limiter/completion.hpp"
#include "limiter/limiter_impl.hpp"
#include "memcached/pipeline.hpp"
#include "pipeline_fixture.hpp"
#include "scarce_memory.hpp"
#include "window_reply.hpp"

namespace {

using namespace std::chrono_literals;

const auto record = [](const limiter& l, handler h) { l.record("a", h); };

/// Makes a record with each allocation failing, and then again in the same world. Either call ends
/// once.
void expect_one_end(const tiers& policies, const limiter_options& options = {}) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", policies, options);
    const result first = w.call_with_failure(number, [&](handler h) { record(l, h); });
    BOOST_TEST(first.answers == (w.has_thrown ? 0 : 1));
    BOOST_TEST(first.handlers == 0);
    const result second = w.call([&](handler h) { record(l, h); });
    BOOST_TEST(second.answers == 1);
    BOOST_TEST(!second.ec, second.ec.message());
    BOOST_TEST(second.answer.allowed);
  });
}

constexpr token_bucket bucket{.capacity = 10, .refill = per_second(1)};
constexpr sliding_log log_of_a_minute{.limit = 10, .window = 1min};

}  // namespace

BOOST_AUTO_TEST_SUITE(short_of_memory_suite)

BOOST_AUTO_TEST_CASE(a_record_that_finds_no_memory_ends) {
  expect_one_end(tiers(bucket));
  expect_one_end(tiers(log_of_a_minute));
  expect_one_end(tiers(log_of_a_minute, bucket));
  expect_one_end(tiers(bucket), {.deny_cache_subjects = 8});
  expect_one_end(tiers(bucket), {.local_units = 5});
}

// The limiter had a timer, but its store did not know of it: nobody destroyed the timer before its
// context.
BOOST_AUTO_TEST_CASE(a_limiter_that_found_no_memory_is_registered_before_it_has_a_timer) {
  const auto expect_registered = [](const limiter_options& options, const auto& call) {
    for_each_allocation([&](long number) {
      std::optional<limiter> l;  // outlives the context
      world w;
      l.emplace(w.memory, "r", bucket, options);
      const auto call_it = [&](handler h) { call(*l, h); };
      w.call_with_failure(number, call_it);
      w.call(call_it);
      BOOST_TEST(!w.memory.backend()->limiters().present().empty());
    });
  };
  expect_registered({.local_units = 5}, record);
  expect_registered({}, [](const limiter& l, handler h) { l.acquire("a", h); });
}

// The alarm took the time for set, and ignored it from then on.
BOOST_AUTO_TEST_CASE(an_alarm_that_found_no_memory_can_be_set_again) {
  asio::io_context io;
  detail::alarm bell;
  int rings = 0;
  const auto set = [&] { bell.set({}, [&rings] { ++rings; }); };
  bell.start(io.get_executor(), [] { return true; });
  next_aligned_fails = true;
  BOOST_CHECK_THROW(set(), std::bad_alloc);
  set();
  io.poll();
  BOOST_TEST(rings == 1);
}

BOOST_AUTO_TEST_CASE(a_record_without_memory_has_counted_nothing) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", log_of_a_minute);
    const result r = w.call_with_failure(number, [&](handler h) { record(l, h); });
    if (r.answers == 1 && has_failed && r.ec) BOOST_TEST((r.ec == error::store_full));
    const result seen = w.call([&](handler h) { l.fetch("a", h); });
    BOOST_TEST(seen.answer.used == (r.answer.allowed ? 1 : 0));
  });
}

// The deny cache found no memory for a long name: the call threw, and its handler was never freed.
BOOST_AUTO_TEST_CASE(a_refusal_that_cannot_be_remembered_is_answered) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", token_bucket{1, per_second(1)}, {.deny_cache_subjects = 8});
    const auto ask = [&](handler h) { l.record("a subject with a long name", h); };
    w.call(ask);
    const result r = w.call_with_failure(number, ask);
    BOOST_TEST(r.answers == (w.has_thrown ? 0 : 1));
    BOOST_TEST(r.handlers == 0);
    BOOST_TEST(!r.answer.allowed);
    if (r.answers == 1 && !r.ec) BOOST_TEST(r.answer.retry_after.count() > 0);
  });
}

// A node of a cluster stayed half disconnected: its calls ended at their deadlines, and no other
// connection was opened.
BOOST_AUTO_TEST_CASE(a_cut_write_that_finds_no_memory_ends_its_calls) {
  for_each_allocation([&](long number) {
    redis::test::fixture f({.in_cluster = true});
    f.line.connected();
    f.submit("a");
    BOOST_TEST_REQUIRE(!std::string(f.line.next_write(f.now)).empty());
    const auto cut = [&] { f.line.disconnected(error::outcome_unknown, 1, f.now); };
    BOOST_TEST(!throws_with_failure(number, cut));
    f.line.take_done();
    std::vector<redis::pipeline::redirected_checks> redirected;
    f.line.take_redirected(redirected);
    const bool is_done = f.checks[0].stage == detail::check_stage::done;
    BOOST_TEST(redirected.size() + (is_done ? 1 : 0) == 1u);
    for (auto& r : redirected) r.checks.clear();
  });
}

// One answer that found no memory took the others of its reply along: no call ended.
BOOST_AUTO_TEST_CASE(an_answer_that_finds_no_memory_keeps_no_other_from_its_caller) {
  const auto play = [](const limiter_options& options, const auto& end) {
    for_each_allocation([&](long number) {
      asio::io_context io;
      detail::completion sink(io.get_executor());
      const auto core = std::make_shared<detail::limiter_impl>(
          std::make_shared<test::null_store>(), "r", tiers(log_of_a_minute), options);
      test::fake_check first(core, "a subject with a long name"), second(core, "b");
      detail::check_list done;
      for (test::fake_check* c : {&first, &second}) {
        end(*c);
        done.push_back(*c);
      }
      BOOST_TEST(!throws_with_failure(number, [&] { sink.complete(std::move(done)); }));
      io.poll();
      for (const test::fake_check* c : {&first, &second}) {
        BOOST_TEST(c->finished == 1);
        BOOST_TEST((c->ec.failed() || c->answer.allowed || c->answer.retry_after.count() > 0));
      }
    });
  };
  play({.deny_cache_subjects = 8}, [](test::fake_check& c) { c.answer.retry_after = 1s; });
  play({.on_failure = on_failure::fallback, .process_count = 1},
       [](test::fake_check& c) { c.ec = error::connection_refused; });
}

// Nothing owned the operation while its keys were compared.
BOOST_AUTO_TEST_CASE(a_joint_check_that_finds_no_memory_ends) {
  for_each_allocation([&](long number) {
    world w;
    const limiter one(w.memory, "one", bucket, {.group = "g"});
    const limiter two(w.memory, "two", bucket, {.group = "g"});
    const auto ask = [&](handler h) { record_all(one.on("a"), two.on("a"), h); };
    const result first = w.call_with_failure(number, ask);
    BOOST_TEST(first.answers == (w.has_thrown ? 0 : 1));
    BOOST_TEST(first.handlers == 0);
    const result second = w.call(ask);
    BOOST_TEST(second.answer.allowed);
  });
}

BOOST_AUTO_TEST_CASE(a_settlement_that_found_no_memory_can_be_repeated) {
  for_each_allocation([&](long number) {
    world w;
    const limiter l(w.memory, "r", log_of_a_minute);
    const result taken = w.call([&](handler h) { l.record("a", {.cost = 5}, h); });
    const auto settle = [&](handler h) { l.settle("a", taken.answer, 7, h); };
    const result first = w.call_with_failure(number, settle);
    const result second = w.call(settle);
    BOOST_TEST((first.answer.allowed != second.answer.allowed));
    BOOST_TEST(second.answer.used == 7);
  });
}

// The store had marked it as settled, and then found no room for the key of the cool-down.
BOOST_AUTO_TEST_CASE(a_settlement_that_found_no_memory_for_a_key_can_be_repeated) {
  for_each_allocation([&](long number) {
    world w;
    // In one shard with "another", whose checks drop the key of a cool-down that there is not.
    const limiter l(w.memory, "r", bucket, {.group = "g", .cool_downs = true});
    const std::string_view subject = "a subject with a long name";
    const result taken = w.call([&](handler h) { l.record(subject, h); });
    for (int i = 0; i < 1000; ++i) w.call([&](handler h) { l.record("another", h); });
    const auto refund = [&](handler h) { l.refund(subject, taken.answer, h); };
    const result first = w.call_with_failure(number, refund);
    const result second = w.call(refund);
    BOOST_TEST((first.answer.allowed != second.answer.allowed));
    BOOST_TEST(second.answer.used == 0);
  });
}

// The call stayed first in line without its reply, and took the reply of the next call.
BOOST_AUTO_TEST_CASE(a_reply_that_finds_no_memory_shifts_no_later_reply) {
  for_each_allocation([&](long number) {
    redis::test::connected_fixture f;
    const auto& first = f.submit("a");
    f.write();
    const auto& second = f.submit("b");
    f.write();
    const std::string full = redis::test::window_reply({{4'000'000, 3}});
    std::ranges::copy(full, f.reader.prepare(full.size()).begin());
    f.reader.commit(full.size());
    bool goes_on = true;
    throws_with_failure(number, [&] {
      goes_on = f.line.consume(f.reader, f.now) != redis::pipeline::stream_state::broken;
    });
    f.line.take_done();
    if (goes_on) f.answer(0);
    BOOST_TEST(!first.answer.allowed);
    BOOST_TEST(second.answer.allowed == goes_on);
  });
}

BOOST_AUTO_TEST_CASE(a_reply_of_memcached_that_finds_no_memory_shifts_no_later_reply) {
  using memcached::pipeline;
  const auto core = test::make_core("r", log_of_a_minute);
  for_each_allocation([&](long number) {
    const pipeline::time now{1000h};
    pipeline line({.max_clock_skew = 0s}, 1);
    memcached::meta_reader reader(1000);
    test::fake_check first(core, "a"), second(core, "b");
    const auto receive = [&](std::string_view reply) {
      std::ranges::copy(reply, reader.prepare(reply.size()).begin());
      reader.commit(reply.size());
    };
    const auto consume = [&] {
      return line.consume(reader, now, 1'790'000'000'000'000) != pipeline::stream_state::broken;
    };
    line.connected(1000);
    // A new connection begins with one request under way: the first answer makes it two.
    test::fake_check warm(core, "w");
    line.submit(warm, "w", now);
    for (const char* reply : {"EN\r\n", "HD\r\n"}) {
      line.next_write(now);
      line.write_done();
      receive(reply);
      consume();
    }
    line.submit(first, "a", now);
    line.submit(second, "b", now);
    line.next_write(now);
    line.write_done();
    bool goes_on = true;
    receive("EN\r\n");
    throws_with_failure(number, [&] { goes_on = consume(); });
    receive("SERVER_ERROR\r\n");
    if (goes_on) consume();
    BOOST_TEST(!first.ec, first.ec.message());
    BOOST_TEST(second.ec.failed() == goes_on);
    line.abandon().clear();
  });
}

// The operation stayed for ever, and kept its handler's context busy.
BOOST_AUTO_TEST_CASE(a_slot_without_memory_leaves_no_operation) {
  world w;
  const limiter l(w.memory, "r", bucket);
  asio::cancellation_signal stop;
  const auto record_until_stop = [&](handler h) {
    l.record("a", asio::bind_cancellation_slot(stop.slot(), h));
  };
  next_aligned_fails = true;
  const result first = w.call(record_until_stop);
  BOOST_TEST(w.has_thrown);
  BOOST_TEST(first.answers == 0);
  BOOST_TEST(first.handlers == 0);
  const result second = w.call(record_until_stop);
  BOOST_TEST(second.answers == 1);
  BOOST_TEST(second.answer.remaining == 9);
}

BOOST_AUTO_TEST_SUITE_END()
