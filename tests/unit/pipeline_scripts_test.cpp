// How the pipeline loads scripts that the server does not have.
#include <boost/test/unit_test.hpp>
#include <string>

#include "pipeline_fixture.hpp"

namespace pipeline_scripts_test {

using namespace std::chrono_literals;
using namespace weir::redis::test;
using weir::error;
using weir::detail::check_kind;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(pipeline_scripts_suite)

BOOST_FIXTURE_TEST_CASE(a_missing_script_is_loaded_and_only_its_checks_are_sent_again,
                        connected_fixture) {
  submit("a");
  write();
  submit("b");
  write();
  BOOST_TEST(feed("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
  BOOST_TEST((checks[0].stage == check_stage::waiting));
  BOOST_TEST(line.wants_write());
  BOOST_TEST(feed("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
  const std::string out = write();
  BOOST_TEST(count_of(out, "LOAD") == 1u);
  BOOST_TEST((out.find("LOAD") < out.find("EVALSHA")));
  BOOST_TEST((out.find("weir:{r:a}:f") < out.find("weir:{r:b}:f")));
  BOOST_TEST(feed("$40\r\n" + std::string(40, 'a') + "\r\n"));
  BOOST_TEST(feed(window_reply({{}, {}})));
  BOOST_TEST(done_with(checks[0], {}));
  BOOST_TEST(done_with(checks[1], {}));
  submit("c");
  BOOST_TEST(count_of(write(), "LOAD") == 0u);
}

// Costs of one key must not overtake each other.
BOOST_FIXTURE_TEST_CASE(what_was_left_for_the_next_write_stays_behind_what_is_sent_again,
                        connected_fixture) {
  submit("a", 1);
  for (int i = 0; i < 255; ++i) submit("other " + std::to_string(i));
  submit("a", 2);
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);
  BOOST_TEST_REQUIRE(line.replies_due() == 8u);
  for (int i = 0; i < 2; ++i) feed("-NOSCRIPT No matching script. Please use EVAL.\r\n");
  BOOST_TEST_REQUIRE((checks[0].stage == check_stage::waiting));
  // The other six calls of the first write are under way: there is room for what comes back only.
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);
  BOOST_TEST((checks[0].stage == check_stage::sent));
  BOOST_TEST_REQUIRE(line.replies_due() == 9u);
  for (int i = 0; i < 6; ++i) feed("-ERR whatever\r\n");
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);

  // The script; then the three.
  BOOST_TEST_REQUIRE(line.replies_due() == 4u);
  for (int i = 0; i < 3; ++i) feed("-ERR whatever\r\n");
  BOOST_TEST((checks[0].stage == check_stage::done));
  BOOST_TEST((checks[256].stage == check_stage::sent));
}

// Every connect once sent all scripts. With allkeys-lru, their buffers pushed the limits themselves
// out.
BOOST_FIXTURE_TEST_CASE(a_script_that_the_server_has_not_comes_right_before_its_first_call,
                        fixture) {
  line.connected({});
  submit("a");
  submit("a", 1, check_kind::reset);
  submit("b");
  line.submit(
      checks.emplace_back(make_core("g", weir::gcra{.rate = weir::per_second(1), .burst = 1}), "c",
                          1, check_kind::record, 1s),
      now);
  const std::string out = write();
  BOOST_TEST(count_of(out, "LOAD") == 2u);
  BOOST_TEST(line.replies_due() == count_of(out, "EVALSHA") + 3);
  // Each right before its own.
  for (const std::string key : {"weir:{r:a}:f", "weir:{g:c}:m"}) {
    const auto call = out.rfind("EVALSHA", out.find(key));
    const auto before = out.rfind("\r\n$4\r\nLOAD\r\n", call);
    BOOST_TEST((before != npos && out.find("EVALSHA", before) == call));
  }
  submit("d");
  BOOST_TEST(count_of(write(), "LOAD") == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_write_cut_between_a_script_and_its_call_has_not_run_the_call, fixture) {
  line.connected({});
  auto& c = submit("a");
  const std::string out = line.next_write();
  line.disconnected(error::outcome_unknown, out.rfind("EVALSHA") - 8, now);
  BOOST_TEST((c.stage == check_stage::waiting));
  BOOST_TEST(line.replies_due() == 0u);
  line.connected();
  BOOST_TEST(count_of(write(), "LOAD") == 0u);
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(c, {}));
}

// What the server has, the next connection says.
BOOST_FIXTURE_TEST_CASE(a_missing_script_is_forgotten_with_its_connection, connected_fixture) {
  submit("a");
  write();
  feed("-NOSCRIPT No matching script. Please use EVAL.\r\n");
  line.disconnected(error::outcome_unknown, npos, now);
  line.connected();
  const std::string out = write();
  BOOST_TEST(count_of(out, "LOAD") == 0u);
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
}

// A second call that found it missing was on its way before.
BOOST_FIXTURE_TEST_CASE(a_missing_script_is_loaded_once, connected_fixture) {
  submit("a");
  write();
  submit("b");
  write();
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(count_of(write(), "LOAD") == 1u);
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(count_of(write(), "LOAD") == 0u);
  BOOST_TEST(feed("$40\r\n" + std::string(40, 'a') + "\r\n"));
  BOOST_TEST(answer(0));
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(checks[0], {}));
  BOOST_TEST(done_with(checks[1], {}));
}

BOOST_FIXTURE_TEST_CASE(a_script_that_stays_missing_is_an_error_in_the_end, connected_fixture) {
  auto& c = submit("a");
  int writes = 0;
  while (c.stage != check_stage::done && writes < 10) {
    const std::string out = write();
    ++writes;
    if (count_of(out, "LOAD") == 1) feed("$40\r\n" + std::string(40, 'a') + "\r\n");
    feed("-NOSCRIPT No matching script.\r\n");
  }
  BOOST_TEST(done_with(c, error::script_missing));
  BOOST_TEST(writes == 3);
}

// A load is some kilobytes: it must not go out with every call.
BOOST_FIXTURE_TEST_CASE(a_script_that_may_not_be_loaded_is_tried_again_after_a_pause, fixture) {
  line.connected({});
  const auto write_now = [&] {
    const std::string out = line.next_write(now);
    if (!out.empty()) line.write_done();
    return out;
  };
  auto& first = submit("a");
  BOOST_TEST(count_of(write_now(), "LOAD") == 1u);
  feed("-NOPERM this user has no permissions to run the 'script|load' command\r\n");
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(done_with(first, error::permission_denied));
  auto& second = submit("b");
  BOOST_TEST(count_of(write_now(), "LOAD") == 0u);
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(done_with(second, error::permission_denied));
  now += 1s;
  auto& third = submit("c", 1, check_kind::record, 10s);
  BOOST_TEST(count_of(write_now(), "LOAD") == 1u);
  feed("$40\r\n" + std::string(40, 'a') + "\r\n");
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(third, {}));
}

// Two checks of a key came back one after the other, with a write without room in between: the
// second one then went first.
BOOST_AUTO_TEST_CASE(checks_that_come_back_one_by_one_keep_their_order) {
  fixture f({.max_keys_per_call = 1});
  f.line.connected();
  auto& first = f.submit("a", 1);
  f.write();
  for (int i = 0; i < 250; ++i) f.submit("s" + std::to_string(i));
  auto& second = f.submit("a", 2);
  f.write();
  f.feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(f.write().empty());  // too much is under way
  for (int i = 0; i < 251; ++i) f.feed("-NOSCRIPT No matching script.\r\n");
  f.write();
  f.feed("$2\r\nok\r\n");
  for (int i = 0; i < 252 && second.stage != weir::detail::check_stage::done; ++i) f.answer(0);
  BOOST_TEST(done_with(second, {}));
  BOOST_TEST(done_with(first, {}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_scripts_test
