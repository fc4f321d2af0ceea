// What stands in Redis: which keys, that each has a TTL, and that any subject finds its own.
#include "integration/monitored.hpp"
#include "redis/script/scripts.hpp"
#include "support/limiter_fixture.hpp"

namespace keys_test {

using namespace weir;
using namespace weir::test;
using namespace std::string_literals;

std::vector<std::string> awkward_subjects() {
  std::vector<std::string> subjects = {" ",
                                       "two words",
                                       "tab\tline\nreturn\r\n",
                                       "{",
                                       "}",
                                       "{}",
                                       "{a}",
                                       "}{",
                                       "a{b}c{d}",
                                       "\0"s,
                                       "a\0b"s,
                                       "a\0c"s,
                                       "%",
                                       "%7B",
                                       "%25",
                                       "%s%n",
                                       ":",
                                       "::",
                                       "a:b",
                                       "*",
                                       "?",
                                       "[a]",
                                       "\\",
                                       "\"",
                                       "'",
                                       "$5\r\nhello\r\n",
                                       "*1\r\n$8\r\nFLUSHALL\r\n",
                                       "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\x8a",
                                       "\xff\xfe",
                                       "-1",
                                       "0",
                                       "nil",
                                       std::string(47, 'k'),
                                       std::string(48, 'k'),
                                       std::string(10'240, 'k'),
                                       std::string(65'535, 'k'),
                                       std::string(65'536, 'k'),
                                       std::string(65'535, 'k') + "l",
                                       std::string(65'536, '{')};
  std::string every_byte;
  for (int b = 0; b < 256; ++b) every_byte += static_cast<char>(b);
  subjects.push_back(every_byte);
  return subjects;
}

/// The one hash tag: from the first '{' to the next '}', and no other brace in the key.
std::string tag_of(const std::string& key) {
  BOOST_TEST(std::count(key.begin(), key.end(), '{') == 1);
  BOOST_TEST(std::count(key.begin(), key.end(), '}') == 1);
  const auto open = key.find('{');
  const auto close = key.find('}');
  BOOST_TEST_REQUIRE(open < close);
  return key.substr(open + 1, close - open - 1);
}

BOOST_FIXTURE_TEST_SUITE(keys_suite, server_fixture)

BOOST_AUTO_TEST_CASE(every_subject_has_a_count_of_its_own) {
  const auto subjects = awkward_subjects();
  for (const bool in_memory : {true, false}) {
    BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) {
      const auto s = in_memory ? open_store(io.get_executor(), "memory://") : open();
      const limiter l(s, "r", fixed_window{.limit = 1000, .window = 24h});
      // The number of calls tells the subjects apart; one by one, and then all at once.
      crowd c;
      for (std::size_t i = 0; i < subjects.size(); ++i) {
        l.record(subjects[i], {.cost = static_cast<std::int64_t>(i + 1)}, c.caller());
      }
      run_until_complete(io, c);
      for (const std::string& subject : subjects) l.record(subject, c.caller());
      run_until_complete(io, c);
      for (std::size_t i = 0; i < subjects.size(); ++i) {
        BOOST_TEST_CONTEXT("subject " << i) {
          BOOST_TEST(!c[i].ec.failed());
          BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(i + 1));
          BOOST_TEST(c[subjects.size() + i].d.used == static_cast<std::int64_t>(i + 2));
        }
      }
      if (!in_memory) BOOST_TEST(keys_of(client).size() == subjects.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(reset_finds_the_same_key) {
  const limiter l(open(), "r", fixed_window{.limit = 10, .window = 24h});
  crowd c;
  const auto subjects = awkward_subjects();
  for (const std::string& subject : subjects) l.record(subject, c.caller());
  run_until_complete(io, c);
  BOOST_TEST(keys_of(client).size() == subjects.size());
  for (const std::string& subject : subjects) l.reset(subject, c.caller());
  run_until_complete(io, c);
  BOOST_TEST(keys_of(client).empty());
}

BOOST_AUTO_TEST_CASE(pairs_that_read_alike_do_not_collide) {
  const std::pair<const char*, const char*> pairs[] = {
      {"a", "b:c"},     {"a:b", "c"},  {"a%3Ab", "c"}, {"a", "b%3Ac"}, {"a:", "b:c"},
      {"a", ":b:c"},    {"a}", "{b"},  {"a", "}:{b"},  {"a", "b}:f"},  {"a", "b"},
      {"a%", "b"},      {"a%25", "b"}, {"a", "%b"},    {"a", "%25b"},  {"a", "{b}"},
      {"a", "%7Bb%7D"}, {"a{", "b}"},  {"a", "b:f"},   {"A", "b"},     {"a", "B"}};
  const weir::policy window = fixed_window{.limit = 100, .window = 24h};
  const weir::policy log = sliding_log{.limit = 100, .window = 24h};
  const auto s = open();
  crowd c;
  std::size_t expected = 0;
  for (const auto& [resource, subject] : pairs) {
    for (const weir::policy& p : {window, log}) {
      limiter(s, resource, p)
          .record(subject, {.cost = static_cast<std::int64_t>(++expected)}, c.caller());
    }
  }
  run_until_complete(io, c);
  for (std::size_t i = 0; i < c.size(); ++i) {
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(i + 1));
  }
  BOOST_TEST(keys_of(client).size() == expected);
}

BOOST_AUTO_TEST_CASE(a_key_has_exactly_one_hash_tag_and_it_is_its_own) {
  auto options = patient_options(server);
  for (const char* prefix : {"weir", "{app}", "%{", "}"}) {
    BOOST_TEST_CONTEXT("prefix " << prefix) {
      client.must("FLUSHALL");
      options.key_prefix = prefix;
      const auto s = make_redis_store(io.get_executor(), options);
      const auto subjects = awkward_subjects();
      crowd c;
      for (const char* resource : {"r", "{r}", "}"}) {
        const limiter l(s, resource, token_bucket{.capacity = 9, .refill = per_day(1)});
        for (const std::string& subject : subjects) l.record(subject, c.caller());
      }
      run_until_complete(io, c);
      BOOST_TEST(c.allowed() == c.size());
      std::set<std::string> tags;
      for (const std::string& key : keys_of(client)) tags.insert(tag_of(key));
      BOOST_TEST(tags.size() == c.size());
    }
  }
}

// A quote among a state's bytes once made the reader of the next test run for ever.
BOOST_AUTO_TEST_CASE(words_of_monitor_lines_may_hold_quotes) {
  const auto words = words_of(R"(1.5 [0 lua] "SET" "k" "a\"b\\" "PX")");
  const std::vector<std::string> expected{"SET", "k", R"(a\"b\\)", "PX"};
  BOOST_TEST(words == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_key_has_a_ttl) {
  const auto s = open();
  for (const auto& [name, policy] : slow_policies(3)) {
    BOOST_TEST_CONTEXT(name) {
      client.must("FLUSHALL");
      const limiter l(s, "r", policy);
      for (int i = 0; i < 5; ++i) {  // the last two are refused
        crowd c;
        for (const char* subject : {"a", "b"}) l.record(subject, c.caller());
        l.fetch("never recorded", c.caller());
        run_until_complete(io, c);
        const auto keys = keys_of(client);
        BOOST_TEST(keys.size() == 2u);
        for (const std::string& key : keys) BOOST_TEST(client.must("PTTL", key).integer > 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(database_and_prefix_of_the_url_are_used) {
  const auto url = server.url() + "/3?timeout=50s&prefix=shop&client_name=till";
  const limiter l(open_store(io.get_executor(), url), "r", fixed_window{.limit = 1, .window = 24h});
  crowd c;
  l.record("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(keys_of(client).empty());
  BOOST_TEST(client.must("CLIENT", "LIST").text.find("name=till") != std::string::npos);
  client.must("SELECT", "3");
  const auto keys = keys_of(client);
  BOOST_TEST_REQUIRE(keys.size() == 1u);
  BOOST_TEST(keys[0] == "shop:{r:a}:f");
  client.must("SELECT", "0");
}

// A server, or a proxy before it, that knows nothing of HELLO.
BOOST_AUTO_TEST_CASE(a_server_without_resp3_works) {
  for (const char* password : {"", "s3cret"}) {
    BOOST_TEST_CONTEXT("password '" << password << "'") {
      redis_server old({.password = password, .arguments = {"--rename-command", "HELLO", ""}});
      auto options = patient_options(old);
      options.database = 2;
      const auto s = make_redis_store(io.get_executor(), options);
      redis_client old_client(old);
      old_client.must("SELECT", "2");
      for (const auto& [name, policy] : slow_policies(2)) {
        BOOST_TEST_CONTEXT(name) {
          const limiter l(s, name, policy);
          crowd c;
          for (int i = 0; i < 3; ++i) l.record("a", c.caller());
          l.fetch("a", c.caller());
          run_until_complete(io, c);
          BOOST_TEST(c[1].d.allowed);
          BOOST_TEST(!c[2].ec.failed());
          BOOST_TEST(!c[2].d.allowed);
          BOOST_TEST(c[3].d.used == 2);
        }
      }
      BOOST_TEST(keys_of(old_client).size() == 9u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace keys_test
