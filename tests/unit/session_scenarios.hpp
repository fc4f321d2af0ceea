#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_redis.hpp"
#include "fault_kinds.hpp"
#include "weir/redis_store.hpp"

/// What a session can go through with a server that is there: which calls are made and when, and
/// what the server is like.
namespace weir::redis::test {

using weir::test::asks;
using weir::test::question;
using weir::test::questions;
using weir::test::when;

struct scenario {
  std::string_view name;
  std::vector<questions> asked;
  std::function<void(fake_redis&)> server = [](fake_redis&) {};
  redis_options options = {};
  int opens = 1;       // connections, with one that serves at the end
  int pings = 0;       // it goes on for so many
  error reason{};      // what a deadline may name
  bool twice = false;  // also with two faults
};

/// Its first connection is one that says this to commands of that name, and serves no call.
inline std::function<void(fake_redis&)> turned_away(std::string_view name, std::string_view said) {
  return [=](fake_redis& s) {
    s.interrupts = [=, &s](const fake_redis::command& words) -> std::string_view {
      if (s.connections != 1 || words[0] != name) return {};
      s.turns_away = true;
      return said;
    };
  };
}

/// Says this to its first script calls.
inline std::function<void(fake_redis&)> refused(std::string_view said, int times) {
  return [=](fake_redis& s) {
    s.interrupts = [=, left = times](const fake_redis::command& words) mutable -> std::string_view {
      return words[0] == "EVALSHA" && left-- > 0 ? said : std::string_view();
    };
  };
}

/// Has all scripts, and has lost them at each of its first script calls.
inline std::function<void(fake_redis&)> forgetful(int times) {
  return [=](fake_redis& s) {
    s.know_scripts();
    s.interrupts = [&s, left = times](const fake_redis::command& words) mutable {
      if (words[0] == "EVALSHA" && left-- > 0) s.forget_scripts();
      return std::string_view();
    };
  };
}

inline question fetch_of(std::string_view subject, asks of = asks::one) {
  return {subject, {}, of, detail::check_kind::fetch};
}
inline question reset_of(std::string_view subject) {
  return {subject, {}, asks::one, detail::check_kind::reset};
}
inline question two_of(std::string_view subject) {
  return {subject, {}, asks::one, detail::check_kind::record, 2};
}
inline question tiers_of(std::string_view subject) { return {subject, {}, asks::tiers}; }
inline question several_of(std::string_view subject) { return {subject, {}, asks::several}; }

inline redis_options acl_user() {
  redis_options o;
  o.username = "alice";
  o.password = "secret";
  o.database = 3;
  o.client_name = "billing";
  return o;
}
inline redis_options default_user() {
  redis_options o;
  o.password = "secret";
  o.database = 1;
  return o;
}
inline redis_options one_key_per_call() {
  redis_options o;
  o.max_keys_per_call = 1;
  return o;
}

/// What a server may say in place of running a call.
inline const std::vector<weir::test::saying>& sayings() {
  static const std::vector<weir::test::saying> all = {
      {"NOSCRIPT No matching script.", error::script_missing},
      {"LOADING Redis is loading the dataset in memory", error::server_loading},
      {"BUSY Redis is busy running a script.", error::server_busy},
      {"READONLY You can't write against a read only replica.", error::read_only, true},
      {"OOM command not allowed when used memory > 'maxmemory'."},
      {"NOPERM this user has no permissions to run 'evalsha'"},
      {"NOAUTH Authentication required.", {}, true},
      {"ERR something else"},
  };
  return all;
}

inline std::vector<scenario> scenarios() {
  using enum when;
  const std::vector<questions> some = {
      {at_first, {{"a"}}}, {during_write, {{"b"}}}, {in_quiet, {{"c"}}}};
  std::vector<scenario> all = {
      // The greeting.
      {.name = "everything in the greeting", .asked = some, .options = acl_user()},
      {.name = "a server without HELLO, users and SETINFO",
       .asked = some,
       .server = [](fake_redis& s) { s.knows_hello = s.knows_setinfo = false; },
       .options = default_user()},
      {.name = "LOADING in the greeting",
       .asked = some,
       .server = turned_away("SCRIPT", "-LOADING Redis is loading the dataset in memory\r\n"),
       .opens = 2,
       .reason = error::server_loading},
      {.name = "a password that is put right",
       .asked = {{at_first,
                  {{"a", error::authentication_failed}, {"b", error::authentication_failed}}}},
       .server = turned_away("HELLO", "-WRONGPASS invalid username-password pair\r\n"),
       .options = default_user(),
       .opens = 2},
      {.name = "a database that does not exist yet",
       .asked = {{at_first, {{"a", error::invalid_database}}}},
       .server = turned_away("SELECT", "-ERR DB index is out of range\r\n"),
       .options = default_user(),
       .opens = 2},
      {.name = "no room for a further client",
       .asked = some,
       .server =
           [](fake_redis& s) {
             s.interrupts = [&s](const fake_redis::command&) -> std::string_view {
               if (s.connections != 1) return {};
               s.turns_away = s.hangs_up = true;
               return "-ERR max number of clients reached\r\n";
             };
           },
       .opens = 2,
       .reason = error::server_error},

      // Checks that are served.
      {.name = "one record", .asked = {{in_quiet, {{"a"}}}}},
      {.name = "records that travel together",
       .asked = {{at_first, {{"hot"}, {"b"}, {"hot"}, {"c"}}},
                 {during_write, {{"hot"}, {"hot"}, {"d"}}},
                 {in_quiet, {{"hot"}, {"e"}}}},
       .twice = true},
      {.name = "several calls in a write",
       .asked = {{at_first, {{"a"}, {"b"}, two_of("a"), {"c"}}}, {during_write, {{"a"}, {"d"}}}},
       .options = one_key_per_call()},
      {.name = "fetches",
       .asked = {{at_first, {{"a"}, fetch_of("a")}},
                 {during_write, {fetch_of("a"), fetch_of("a")}},
                 {in_quiet, {fetch_of("b")}}}},
      {.name = "resets",
       .asked = {{at_first, {{"a"}, reset_of("a"), {"a"}}},
                 {during_write, {reset_of("a"), {"b"}}},
                 {in_quiet, {{"a"}}}}},
      {.name = "several limits, all or nothing",
       .asked = {{at_first, {several_of("a"), several_of("b"), several_of("a"), tiers_of("a")}},
                 {during_write,
                  {several_of("a"), fetch_of("a", asks::several), tiers_of("a"), tiers_of("a")}},
                 {in_quiet, {tiers_of("b")}}}},
      {.name = "an idle connection", .asked = {{at_first, {{"a"}}}}, .pings = 2},
      {.name = "pushes ahead of replies",
       .asked = some,
       .server = [](fake_redis& s) { s.pushes = ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n"; }},

      // Checks that the server does not run.
      {.name = "scripts that are lost once",
       .asked = {{at_first, {{"a"}, tiers_of("a")}}, {during_write, {{"b"}}}},
       .server = forgetful(1),
       .twice = true},
      {.name = "NOSCRIPT, although the script was sent",
       .asked = {{at_first, {{"a", error::script_missing}}}, {in_quiet, {{"b"}}}},
       .server = refused("-NOSCRIPT No matching script.\r\n", 3)},
      {.name = "a key that holds something else",
       .asked = {{at_first, {{"a"}, {"b", error::wrong_type}, {"c"}}}},
       .server = [](fake_redis& s) { s.foreign_keys.insert("weir:{one:b}:f"); }},
  };
  for (const weir::test::saying& said : sayings()) {
    auto asked = some;
    if (said.means == error{}) asked[0].all[0].told = classify_error(said.text);
    all.push_back({.name = said.text,
                   .asked = std::move(asked),
                   .server =
                       [&said](fake_redis& s) {
                         s.refuses = said.text;
                         s.turns_away_then = said.ends;
                       },
                   .opens = said.ends ? 2 : 1,
                   .reason = said.means,
                   .twice = said.means == error::read_only});
  }
  return all;
}

}  // namespace weir::redis::test
