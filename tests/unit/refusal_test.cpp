// What follows each error reply to a script call.
#include "redis/refusal.hpp"

#include "redis/resp/error_reply.hpp"
#include "support/test.hpp"

namespace refusal_test {

using namespace weir;
using weir::redis::classify_error;
using weir::redis::redirection;
using weir::redis::refusal;
using weir::redis::refusal_of;

BOOST_AUTO_TEST_SUITE(refusal_suite)

BOOST_AUTO_TEST_CASE(each_error_reply_has_what_follows_it) {
  using enum refusal::step;
  constexpr auto none = redirection::kind::none, stays = redirection::kind::again;
  constexpr auto moved = redirection::kind::moved, ask = redirection::kind::ask;
  constexpr auto tries = redirection::kind::try_again, down = redirection::kind::down;
  constexpr auto lost = redirection::kind::lost;
  struct outcome {
    refusal::step what;
    error why = {};
    redirection::kind where = redirection::kind::none;
    bool leaves = false;
  };
  struct row {
    std::string_view text;
    outcome plain;    // from a server that is not in a cluster
    outcome in_node;  // from a node, to a call with one key
    outcome in_many;  // to a call with several keys
  };
  const auto everywhere = [](std::string_view text, const outcome& all) {
    return row{text, all, all, all};
  };
  const auto answers = [&](std::string_view text, error e) {
    return everywhere(text, {answer, e});
  };
  const auto in_node = [](std::string_view text, const outcome& plain, const outcome& node) {
    return row{text, plain, node, node};
  };
  const outcome is_cluster{answer, error::server_is_cluster};
  const outcome leaves_replica{new_connection, error::read_only, stays, true};
  const row table[] = {
      everywhere("NOSCRIPT No matching script", {again, {}, stays}),
      everywhere("LOADING Redis is loading", {after_pause, error::server_loading, stays}),
      everywhere("BUSY Redis is busy running a script.", {after_pause, error::server_busy, stays}),
      in_node("READONLY You can't write against a read only replica.", leaves_replica,
              {elsewhere, error::read_only, down}),
      in_node("MASTERDOWN Link with MASTER is down", leaves_replica,
              {elsewhere, error::read_only, down}),
      // Redis 6.2, of a script
      everywhere("@user_script: 31: -READONLY You can't write", leaves_replica),
      everywhere("NOAUTH Authentication required.",
                 {answer, error::authentication_failed, none, true}),
      in_node("MOVED 7 h:1", is_cluster, {elsewhere, {}, moved}),
      {"ASK 7 h:1", is_cluster, {elsewhere, {}, ask}, {elsewhere, error::slot_migrating, tries}},
      in_node("MOVED 7", is_cluster, {elsewhere, error::too_many_redirects, lost}),
      in_node("TRYAGAIN Multiple keys request during rehashing of slot", is_cluster,
              {elsewhere, error::slot_migrating, tries}),
      in_node("CLUSTERDOWN Hash slot not served", is_cluster,
              {elsewhere, error::cluster_down, down}),
      in_node("ERR Script attempted to execute a write command while the cluster is down and "
              "readonly",
              {answer, error::server_error}, {elsewhere, error::cluster_down, down}),
      in_node("CROSSSLOT Keys in request don't hash to the same slot", is_cluster,
              {answer, error::cross_slot}),
      in_node("ERR Script attempted to access keys that do not hash to the same slot", is_cluster,
              {answer, error::cross_slot}),
      in_node("ERR Script attempted to access a non local key in a cluster node", is_cluster,
              {answer, error::outcome_unknown}),
      answers("OOM command not allowed when used memory > 'maxmemory'.", error::out_of_memory),
      answers("NOPERM this user has no permissions to run the 'evalsha' command",
              error::permission_denied),
      answers("ERR unknown command 'EVALSHA'", error::command_missing),
      answers("WRONGTYPE Operation against a key", error::wrong_type),
      answers("ERR whatever", error::server_error),
  };
  for (const auto& row : table) {
    const auto test = [&](bool in_cluster, bool has_more_keys, const outcome& expected) {
      BOOST_TEST_CONTEXT(row.text << (in_cluster ? ", in a cluster" : "")
                                  << (has_more_keys ? ", several keys" : "")) {
        const refusal r = refusal_of(classify_error(row.text), row.text, in_cluster, has_more_keys);
        BOOST_TEST((r.what == expected.what));
        BOOST_TEST((r.why == expected.why));
        BOOST_TEST((r.where.what == expected.where));
        BOOST_TEST(r.leaves == expected.leaves);
      }
    };
    test(false, false, row.plain);
    test(false, true, row.plain);
    test(true, false, row.in_node);
    test(true, true, row.in_many);
  }
}

// A reply that is no error, and cannot be the one that is due.
BOOST_AUTO_TEST_CASE(a_reply_that_does_not_fit_ends_the_checks) {
  for (const bool in_cluster : {false, true}) {
    const refusal r = refusal_of(error::protocol_error, {}, in_cluster, true);
    BOOST_TEST((r.what == refusal::step::answer));
    BOOST_TEST((r.why == error::protocol_error));
  }
}

BOOST_AUTO_TEST_CASE(a_redirect_names_the_node) {
  const refusal r = refusal_of(error::server_is_cluster, "MOVED 7 h:1", true, false);
  BOOST_TEST((r.where.to == redis_address{"h", 1}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refusal_test
