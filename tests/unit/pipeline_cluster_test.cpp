// The pipeline of a node of a Redis Cluster: what the node sends elsewhere leaves it, once.
#include "redis/pipeline.hpp"

#include "pipeline_fixture.hpp"
#include "redis/slot.hpp"
#include "support/test.hpp"

namespace pipeline_cluster_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_list;
using weir::detail::check_stage;
using weir::detail::cluster_route;
using weir::redis::pipeline;
using weir::redis::redirection;
using redirected = std::vector<pipeline::redirected_checks>;

struct node_fixture : fixture {
  node_fixture() : fixture({.in_cluster = true, .host = "asked.example"}) { line.connected(); }

  /// As submit(), of a check that the cluster has routed.
  fake_check& route(std::string_view subject, std::uint16_t flags = 0,
                    fake_request kind = check_kind::record) {
    fake_check& c = checks.emplace_back(core, subject, 1, kind, 10s);
    std::string scratch;
    c.check().route.value = weir::redis::slot_of(c, scratch) | flags;
    line.submit(c, now);
    return c;
  }
  redirected taken() {
    redirected all;
    line.take_redirected(all);
    return all;
  }
  static std::vector<const fake_check*> in(const check_list& list) {
    std::vector<const fake_check*> all;
    for (auto& c : list) {
      all.push_back(&fake_check::of(const_cast<weir::detail::check&>(c)));
    }
    return all;
  }
};

constexpr char asking[] = "*1\r\n$6\r\nASKING\r\n";

BOOST_FIXTURE_TEST_SUITE(pipeline_cluster_suite, node_fixture)

BOOST_AUTO_TEST_CASE(keys_of_different_slots_never_share_a_call) {
  for (const char* s : {"a", "b", "a", "b"}) route(s);
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 2u);
  BOOST_TEST(line.replies_due() == 2u);
  BOOST_TEST(answer(0));
  BOOST_TEST(answer(0));
  for (const auto& c : checks) BOOST_TEST(done_with(c, {}));
  BOOST_TEST(checks[2].answer.used == 2);
}

BOOST_AUTO_TEST_CASE(keys_of_one_slot_share_a_call) {
  core = make_core("r", fixed_window{.limit = 3, .window = 10s}, {.group = "g"});
  for (const char* s : {"a", "b", "c"}) route(s);
  BOOST_TEST(count_of(write(), "EVALSHA") == 1u);
}

// unit.refusal has all of the replies.
BOOST_AUTO_TEST_CASE(checks_that_a_node_sends_elsewhere_leave_it_in_order) {
  using enum redirection::kind;
  for (const auto& [reply, kind, reason] :
       {std::tuple{"-MOVED 1 10.0.0.1:7000\r\n", moved, error_code{}},
        {"-READONLY You can't write\r\n", down, error_code{error::read_only}}}) {
    BOOST_TEST_CONTEXT(reply) {
      auto& first = route("a");
      auto& second = route("a");
      write();
      BOOST_TEST(!line.has_news());
      BOOST_TEST(feed(reply));
      BOOST_TEST((last_state == stream_state::good));
      BOOST_TEST(line.has_news());
      BOOST_TEST(line.pending() == 2u);
      redirected all = taken();
      BOOST_TEST_REQUIRE(all.size() == 1u);
      BOOST_TEST((all[0].why.what == kind));
      if (kind == moved) BOOST_TEST((all[0].why.to == redis_address{"10.0.0.1", 7000}));
      BOOST_TEST((in(all[0].checks) == std::vector<const fake_check*>{&first, &second}));
      for (const fake_check* c : {&first, &second}) {
        BOOST_TEST((c->stage == check_stage::waiting));
        BOOST_TEST(c->ec == reason);
      }
      line.proceed();
      BOOST_TEST(line.pending() == 0u);
      BOOST_TEST(!line.has_news());
      BOOST_TEST(write().empty());
      now += 20s;
      line.expire(now);  // it no longer knows them
      BOOST_TEST(line.take_done().empty());
      all[0].checks.clear();
    }
  }
}

// Until the cluster takes them, they are the pipeline's: their deadlines, cancellations, its end.
BOOST_AUTO_TEST_CASE(a_redirected_check_ends_like_any_other) {
  auto& expires = route("a");
  auto& cancelled = route("b");
  auto& closed = route("c");
  write();
  for (int i = 0; i < 3; ++i) feed("-CLUSTERDOWN The cluster is down\r\n");
  line.cancel(cancelled, weir::detail::cancel_scope::only_unsent);
  BOOST_TEST(done_with(cancelled, boost::asio::error::operation_aborted));
  closed.check().flight.deadline = now + 20s;
  now += 11s;
  line.expire(now);
  BOOST_TEST(done_with(expires, error::cluster_down));
  line.close();
  BOOST_TEST(done_with(closed, error::store_closed));
  line.take_done();
  BOOST_TEST(line.pending() == 0u);
  for (const auto& r : taken()) BOOST_TEST(r.checks.empty());
}

BOOST_AUTO_TEST_CASE(a_cancelled_acquire_is_not_redirected) {
  auto& c = route("a", 0, check_kind::acquire);
  write();
  line.cancel(c, weir::detail::cancel_scope::any);
  // Not by feed(), which would lose the check that has taken the place of the cancelled one.
  constexpr std::string_view moved = "-MOVED 1 10.0.0.1:7000\r\n";
  std::copy(moved.begin(), moved.end(), reader.prepare(moved.size()).begin());
  reader.commit(moved.size());
  line.consume(reader, now);
  const redirected all = taken();
  BOOST_TEST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all[0].checks.empty());
  auto done = line.take_done();
  while (!done.empty()) {
    auto& one = done.front();
    done.pop_front();
    one.finish(weir::detail::delivery::dispatch);
  }
  BOOST_TEST(line.pending() == 0u);
}

BOOST_AUTO_TEST_CASE(asking_goes_right_before_its_call_with_or_without_the_text) {
  line.connected(weir::redis::script_set());
  route("a", cluster_route::asks);
  route("a", cluster_route::asks);
  auto& usual = route("b");
  const std::string out = write();
  BOOST_TEST(count_of(out, asking) == 2u);
  BOOST_TEST(count_of(out, "EVALSHA") == 2u);
  BOOST_TEST(count_of(out, "$4\r\nEVAL\r\n") == 1u);
  for (auto at = out.find(asking); at != npos; at = out.find(asking, at + 1)) {
    BOOST_TEST(out.substr(at + sizeof asking - 1).find("EVAL") < 20u);
  }
  BOOST_TEST(line.replies_due() == 5u);
  feed("+OK\r\n");
  BOOST_TEST(answer(0));
  feed("+OK\r\n");
  BOOST_TEST(answer(1));
  BOOST_TEST(answer(0));
  for (const auto& c : checks) BOOST_TEST(done_with(c, {}));
  BOOST_TEST(checks[1].answer.used == 2);
  BOOST_TEST(usual.answer.used == 1);
  // One alone in its write, too.
  route("c", cluster_route::asks);
  BOOST_TEST(write().starts_with(asking));
}

// A later check of the key must not join a call before the one that is alone.
BOOST_AUTO_TEST_CASE(a_check_that_is_alone_is_neither_joined_nor_overtaken) {
  route("a");
  route("a", cluster_route::alone);
  route("a");
  route("a");
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 3u);
  for (int i = 0; i < 3; ++i) BOOST_TEST(answer(i));
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(checks[i].answer.used == static_cast<std::int64_t>(i + 1));
  }
  BOOST_TEST(!checks[3].answer.allowed);  // the limit is 3
}

// With the write cut after every byte: ASKING alone runs nothing.
BOOST_AUTO_TEST_CASE(asking_without_its_call_is_sent_again_with_it) {
  for (std::size_t cut = 0;; ++cut) {
    node_fixture f;
    auto& c = f.route("a", cluster_route::asks);
    const std::string first = f.line.next_write(f.now);
    if (cut > first.size()) break;
    f.line.disconnected(error::outcome_unknown, cut, f.now);
    f.line.take_done();
    redirected back = f.taken();
    f.line.proceed();
    f.line.connected();
    for (auto& r : back) f.line.resume(std::move(r.checks), f.now);
    const std::string second = f.write();
    if (cut == first.size()) {
      BOOST_TEST_REQUIRE(done_with(c, error::outcome_unknown));
      BOOST_TEST_REQUIRE(second.empty());
    } else {
      BOOST_TEST_REQUIRE(second == first);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_check_goes_on_at_another_node_with_its_deadline) {
  auto& c = route("a");
  const auto deadline = c.deadline;
  write();
  feed("-MOVED 1 10.0.0.1:7000\r\n");
  redirected all = taken();
  node_fixture other;
  other.now = now + 3s;
  other.line.resume(std::move(all[0].checks), other.now);
  BOOST_TEST((c.deadline == deadline));
  BOOST_TEST(other.line.pending() == 1u);
  BOOST_TEST(count_of(other.write(), "weir:{r:a}:f") == 1u);
  BOOST_TEST(other.answer(2));
  BOOST_TEST(done_with(c, {}));
  BOOST_TEST(c.answer.used == 3);
}

BOOST_AUTO_TEST_CASE(unsent_checks_of_a_slot_are_taken_out_in_order) {
  auto& sent = route("a");
  write();
  auto& first = route("a");
  auto& stays = route("b");
  auto& second = route("a");
  check_list out;
  const std::uint16_t slot = sent.check().route.value;
  line.take_unsent([&](const weir::detail::check& c) { return c.route.value == slot; }, out);
  BOOST_TEST((in(out) == std::vector<const fake_check*>{&first, &second}));
  BOOST_TEST(line.pending() == 2u);
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(sent, {}));
  const std::string next = write();
  BOOST_TEST(count_of(next, "weir:{r:a}:f") == 0u);
  BOOST_TEST(count_of(next, "weir:{r:b}:f") == 1u);
  BOOST_TEST((stays.stage == check_stage::sent));
  out.clear();
}

// The next check of the slot was written right behind the reply, before the cluster had looked.
BOOST_AUTO_TEST_CASE(nothing_is_written_until_the_cluster_has_taken_what_came_back) {
  route("a");
  write();
  auto& later = route("a");
  feed("-CLUSTERDOWN The cluster is down\r\n");
  BOOST_TEST(!line.wants_write());
  BOOST_TEST(write().empty());
  redirected all = taken();
  BOOST_TEST(!line.wants_write());
  check_list out;
  line.take_unsent([](const weir::detail::check&) { return true; }, out);
  BOOST_TEST((in(out) == std::vector<const fake_check*>{&later}));
  line.proceed();
  BOOST_TEST(!line.wants_write());
  route("b");
  BOOST_TEST(count_of(write(), "weir:{r:b}:f") == 1u);
  all[0].checks.clear();
  out.clear();
}

// The cluster may hold checks of its slot, which must go first.
BOOST_AUTO_TEST_CASE(nothing_is_written_until_the_cluster_knows_of_a_check_that_came_back) {
  auto& first = route("a");
  const std::size_t sent = line.next_write(now).size();
  auto& later = route("a");
  line.disconnected(error::outcome_unknown, sent - 1, now);
  line.connected();
  BOOST_TEST(line.has_news());
  BOOST_TEST(!line.wants_write());
  redirected back = taken();
  BOOST_TEST_REQUIRE(back.size() == 1u);
  BOOST_TEST((back[0].why.what == redirection::kind::again));
  BOOST_TEST((in(back[0].checks) == std::vector<const fake_check*>{&first}));
  line.proceed();
  BOOST_TEST(count_of(write(), "EVALSHA") == 1u);
  BOOST_TEST((later.stage == check_stage::sent));
  back[0].checks.clear();
}

// It would be sent again while a later check of its key is sent to another node.
BOOST_AUTO_TEST_CASE(a_check_that_did_not_run_goes_to_the_cluster) {
  for (const auto& [reply, reason] :
       {std::pair{"-NOSCRIPT No matching script.\r\n", error_code{}},
        {"-LOADING Redis is loading\r\n", error_code{error::server_loading}},
        {"-BUSY Redis is busy\r\n", error_code{error::server_busy}},
        {"-ERR Error running script (call to f_1): @user_script:1: -READONLY You can't\r\n",
         error_code{error::read_only}}}) {
    BOOST_TEST_CONTEXT(reply) {
      node_fixture f;
      auto& c = f.route("a");
      f.write();
      f.feed(reply);
      BOOST_TEST(!f.line.wants_write());
      redirected all = f.taken();
      BOOST_TEST_REQUIRE(all.size() == 1u);
      BOOST_TEST((all[0].why.what == redirection::kind::again));
      BOOST_TEST((in(all[0].checks) == std::vector<const fake_check*>{&c}));
      BOOST_TEST(c.ec == reason);
      f.line.proceed();
      BOOST_TEST(f.line.pending() == 0u);
      // The pause of a node that is loading or busy holds for what comes back to it, too.
      const bool pauses = reason == error::server_loading || reason == error::server_busy;
      f.line.resume(std::move(all[0].checks), f.now);
      BOOST_TEST(f.line.wants_write() == !reason);
      if (!pauses) continue;
      BOOST_TEST((f.line.wakeup() <= f.now + 25ms));
      f.now += 25ms;
      f.line.expire(f.now);
      BOOST_TEST(f.line.wants_write());
    }
  }
}

// Its deadline came before the answer, so it ended with no_reply, as if it could have counted.
BOOST_AUTO_TEST_CASE(a_check_that_came_back_is_not_sent_again_right_before_its_deadline) {
  for (const char* reply : {"-CLUSTERDOWN The cluster is down\r\n",
                            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"}) {
    node_fixture f;
    auto& c = f.route("a");
    f.write();
    f.feed(reply);
    redirected all = f.taken();
    f.line.proceed();
    const error reason = static_cast<error>(c.ec.value());
    f.now = c.deadline - 1ms;
    f.line.resume(std::move(all[0].checks), f.now);
    // A check of one key is not told to try again when it is alone.
    BOOST_TEST(f.line.wants_write() == (reason == error::slot_migrating));
    if (reason == error::slot_migrating) continue;
    BOOST_TEST(f.write().empty());
    // If it kept its place, it would hold its slot. The cluster sent it to the slot's next node,
    // where it ran behind later checks of its key.
    auto& later = f.route("a");
    f.write();
    BOOST_TEST(f.answer(0));
    BOOST_TEST(done_with(later, {}));
    weir::detail::check_list unsent;
    f.line.take_unsent([](const auto&) { return true; }, unsent);
    BOOST_TEST(unsent.empty());
    f.line.take_done();
    BOOST_TEST(done_with(c, reason));
  }
}

BOOST_AUTO_TEST_CASE(a_node_is_asked_for_the_slot_map) {
  line.ask_map();
  BOOST_TEST(line.wants_write());
  BOOST_TEST(write() == "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  BOOST_TEST(write().empty());
  feed("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:7000\r\n");
  BOOST_TEST(line.has_news());
  const auto answered = line.take_map();
  BOOST_TEST_REQUIRE(answered.has_value());
  BOOST_TEST_REQUIRE(answered->map != nullptr);
  BOOST_TEST((answered->map->masters[0] == redis_address{"asked.example", 7000}));
  BOOST_TEST(!line.has_news());
  line.ask_map();
  write();
  feed("-NOPERM this user has no permissions\r\n");
  const auto refused = line.take_map();
  BOOST_TEST_REQUIRE(refused.has_value());
  BOOST_TEST((refused->map == nullptr));
  BOOST_TEST((refused->failure == error::permission_denied));
}

// It was asked for before there was a connection.
BOOST_AUTO_TEST_CASE(the_question_for_the_map_waits_for_the_connection) {
  node_fixture f;
  f.line.disconnected(error::outcome_unknown, npos, f.now);
  f.line.ask_map();
  f.line.connected();
  BOOST_TEST(count_of(f.write(), "SLOTS") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_cluster_test
