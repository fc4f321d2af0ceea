// How the pipeline sends scripts that the server does not have.
#include "pipeline_fixture.hpp"
#include "support/test.hpp"

namespace pipeline_scripts_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_stage;

constexpr std::string_view eval = "$4\r\nEVAL\r\n";

BOOST_AUTO_TEST_SUITE(pipeline_scripts_suite)

BOOST_FIXTURE_TEST_CASE(a_missing_script_goes_as_text_and_only_its_checks_are_sent_again,
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
  BOOST_TEST(count_of(out, eval) == 1u);
  BOOST_TEST((out.find("weir:{r:a}:f") < out.find("weir:{r:b}:f")));
  BOOST_TEST(feed(window_reply({{}, {}})));
  BOOST_TEST(done_with(checks[0], {}));
  BOOST_TEST(done_with(checks[1], {}));
  submit("c");
  BOOST_TEST(count_of(write(), eval) == 0u);
}

// Costs of one key must not overtake each other.
BOOST_FIXTURE_TEST_CASE(what_was_left_for_the_next_write_stays_behind_what_is_sent_again,
                        connected_fixture) {
  line.connected(weir::redis::script_set().set(), 1ms);
  submit("a", 1);
  for (int i = 0; i < 255; ++i) submit("other " + std::to_string(i));
  submit("a", 2);
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);
  BOOST_TEST_REQUIRE(line.replies_due() == 8u);
  now += 100ms;  // a slow answer leaves the window as it is
  for (int i = 0; i < 2; ++i) feed("-NOSCRIPT No matching script. Please use EVAL.\r\n");
  BOOST_TEST_REQUIRE((checks[0].stage == check_stage::waiting));
  // The other six calls of the first write are under way: there is room for what comes back only.
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);
  BOOST_TEST((checks[0].stage == check_stage::sent));
  BOOST_TEST_REQUIRE(line.replies_due() == 8u);
  for (int i = 0; i < 6; ++i) feed("-ERR whatever\r\n");
  BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);

  BOOST_TEST_REQUIRE(line.replies_due() == 3u);
  for (int i = 0; i < 2; ++i) feed("-ERR whatever\r\n");
  BOOST_TEST((checks[0].stage == check_stage::done));
  BOOST_TEST((checks[256].stage == check_stage::sent));
}

// Every connect once sent all scripts. With allkeys-lru, their buffers pushed the limits themselves
// out.
BOOST_FIXTURE_TEST_CASE(the_first_call_of_a_script_that_the_server_has_not_carries_the_text,
                        fixture) {
  line.connected({});
  submit("a");
  submit("a", 1, check_kind::reset);
  submit("b");
  line.submit(checks.emplace_back(make_core("g", gcra{.rate = per_second(1), .burst = 1}), "c", 1,
                                  check_kind::record, 1s),
              now);
  const std::string out = write();
  BOOST_TEST(count_of(out, eval) == 2u);
  BOOST_TEST(line.replies_due() == count_of(out, eval) + count_of(out, "EVALSHA") + 1);
  for (const std::string key : {"weir:{r:a}:f", "weir:{g:c}:m"}) {
    const auto call = out.rfind(eval, out.find(key));
    BOOST_TEST((call != npos && out.find("EVALSHA", call) > out.find(key, call)));
  }
  submit("d");
  BOOST_TEST(count_of(write(), eval) == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_write_cut_within_a_text_has_not_run_its_call, fixture) {
  line.connected({});
  auto& c = submit("a");
  const std::string out = line.next_write();
  line.disconnected(error::outcome_unknown, out.size() - 1, now);
  BOOST_TEST((c.stage == check_stage::waiting));
  BOOST_TEST(line.replies_due() == 0u);
  line.connected();
  BOOST_TEST(count_of(write(), eval) == 0u);
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
  BOOST_TEST(count_of(out, eval) == 0u);
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
}

// A second call that found it missing was on its way before.
BOOST_FIXTURE_TEST_CASE(a_missing_script_is_sent_once, connected_fixture) {
  submit("a");
  write();
  submit("b");
  write();
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(count_of(write(), eval) == 1u);
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(count_of(write(), eval) == 0u);
  BOOST_TEST(answer(0));
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(checks[0], {}));
  BOOST_TEST(done_with(checks[1], {}));
}

BOOST_FIXTURE_TEST_CASE(a_server_that_says_noscript_to_eval_is_an_error_in_the_end,
                        connected_fixture) {
  auto& c = submit("a");
  int writes = 0;
  while (c.stage != check_stage::done && writes < 10) {
    write();
    ++writes;
    feed("-NOSCRIPT No matching script.\r\n");
  }
  BOOST_TEST(done_with(c, error::script_missing));
  BOOST_TEST(writes == 3);
}

// A node redirects the call with the text, so it does not keep the script, and a proxy sends each
// key to its own server: the next call may find the script missing again.
BOOST_FIXTURE_TEST_CASE(the_last_time_a_call_is_sent_it_carries_the_text, connected_fixture) {
  submit("a", 1);
  submit("b", 2);
  write();
  feed("-NOSCRIPT No matching script.\r\n");
  feed("-NOSCRIPT No matching script.\r\n");
  BOOST_TEST(count_of(write(), eval) == 1u);
  BOOST_TEST(answer(0));
  feed("-NOSCRIPT No matching script.\r\n");
  const std::string last = write();
  BOOST_TEST(count_of(last, eval) == 1u);
  BOOST_TEST(answer(0));
  for (const auto& c : checks) BOOST_TEST(done_with(c, {}));
}

// A text is some kilobytes: it must not go out with every call.
BOOST_FIXTURE_TEST_CASE(a_text_that_may_not_be_sent_is_tried_again_after_a_pause, fixture) {
  for (const auto& [reply, reason] :
       {std::pair{"-NOPERM this user has no permissions to run the 'eval' command\r\n",
                  error::permission_denied},
        {"-ERR unknown command 'EVAL', with args beginning with: 'local', '1'\r\n",
         error::command_missing}}) {
    line.connected({});
    const auto write_now = [&] {
      const std::string out = line.next_write(now);
      if (!out.empty()) line.write_done();
      return out;
    };
    auto& first = submit("a");
    BOOST_TEST(count_of(write_now(), eval) == 1u);
    feed(reply);
    BOOST_TEST(done_with(first, reason));
    BOOST_TEST(first.ec.what().find("EVAL") != npos, first.ec.what());
    auto& second = submit("b");
    BOOST_TEST(count_of(write_now(), eval) == 0u);
    feed("-NOSCRIPT No matching script.\r\n");
    BOOST_TEST(done_with(second, reason));
    BOOST_TEST(second.ec.what().find("EVAL") != npos, second.ec.what());
    now += 1s;
    auto& third = submit("c", 1, check_kind::record, 10s);
    BOOST_TEST(count_of(write_now(), eval) == 1u);
    BOOST_TEST(answer(0));
    BOOST_TEST(done_with(third, {}));
    line.disconnected(error::outcome_unknown, npos, now);
  }
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
  for (int i = 0; i < 252 && second.stage != weir::detail::check_stage::done; ++i) f.answer(0);
  BOOST_TEST(done_with(second, {}));
  BOOST_TEST(done_with(first, {}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_scripts_test
