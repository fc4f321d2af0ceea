// limiter_options::subject_buckets: the keys, and which checks travel in one call.
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include "redis/script/call_writer.hpp"
#include "redis/script/coalescer.hpp"
#include "redis/slot.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "weir/concurrency_limiter.hpp"
#include "weir/limiter.hpp"
#include "weir/memory_store.hpp"

namespace subject_buckets_test {

using namespace weir;
using namespace weir::test;

const fixed_window three{.limit = 3, .window = 10s};

std::string key_of(const core_ptr& core, std::string_view subject, std::size_t tier = 0) {
  std::string key;
  core->append_key(key, subject, tier);
  return key;
}

/// The keys of all calls that carry these checks.
std::vector<std::vector<std::string>> keys_of_calls(std::deque<fake_check>& checks) {
  weir::redis::coalescer packer(64);
  weir::detail::check_list line;
  weir::redis::call_writer writer;
  std::string scratch;
  for (fake_check& c : checks) {
    c.check().route.value = weir::redis::slot_of(c, scratch);
    line.push_back(c);
  }
  std::vector<std::vector<std::string>> all;
  for (const auto& call : packer.pack(line)) {
    std::string out;
    writer.write(out, call);
    command_reader reader;
    reader.feed(out);
    const auto words = reader.next().value();
    all.emplace_back(words.begin() + 3, words.begin() + 3 + std::stol(words[2]));
  }
  line.clear();
  return all;
}

BOOST_AUTO_TEST_SUITE(subject_buckets_suite)

// The memory store picks a shard by it: all keys of a joint check have to meet in one.
BOOST_AUTO_TEST_CASE(the_hash_tag_of_a_key_is_the_text_between_its_braces) {
  for (const limiter_options& options :
       {limiter_options{}, limiter_options{.group = "{g}"}, limiter_options{.cool_downs = true},
        limiter_options{.subject_buckets = 64}}) {
    const auto core = make_core("r:{x}", three, options);
    for (const std::string_view subject : {"a", "account-1000", "}", "{a}", "50%", "a{b}c{d}e"}) {
      for (std::size_t tier = 0; tier < core->tiers.size(); ++tier) {
        const std::string key = key_of(core, subject, tier);
        BOOST_TEST(core->tag_of(key, tier) == weir::detail::hash_tag(key));
      }
    }
  }
}

// The numbers are those of another program's FNV-1a: processes that disagree on them count apart.
BOOST_AUTO_TEST_CASE(the_bucket_is_fnv_1a_of_the_subject) {
  const auto core = make_core("r", three, {.subject_buckets = 64});
  BOOST_TEST(core->bucket_of("a") == 0xaf63dc4c8601ec8cu % 64);
  BOOST_TEST(core->bucket_of("foobar") == 0x85944171f73967e8u % 64);
  BOOST_TEST(core->bucket_of("\xff") == 0xaf64724c8602eb6eu % 64);
  const auto odd = make_core("r", three, {.subject_buckets = 1000});
  BOOST_TEST(odd->bucket_of("foobar") == 0x85944171f73967e8u % 1000);
  BOOST_TEST(odd->bucket_of("\xff") == 0xaf64724c8602eb6eu % 1000);
}

BOOST_AUTO_TEST_CASE(the_hash_tag_is_the_bucket_and_the_subject_follows) {
  const auto core = make_core("r", three, {.subject_buckets = 64});
  BOOST_TEST(key_of(core, "foobar") == "weir:{r:40/64}/foobar:f");
  BOOST_TEST(key_of(core, "a") == "weir:{r:12/64}/a:f");
  BOOST_TEST(key_of(make_core("r:{1}", three, {.subject_buckets = 1}), "{a}%") ==
             "weir:{r%3A%7B1%7D:0/1}/%7Ba%7D%25:f");
  BOOST_TEST(key_of(make_core("r", three), "foobar") == "weir:{r:foobar}:f");
}

BOOST_AUTO_TEST_CASE(all_keys_of_a_subject_have_one_hash_tag) {
  const auto core = make_core("r", tiers(three, gcra{per_second(1)}),
                              {.subject_buckets = 64, .cool_downs = true});
  const std::vector<std::string> names = {"f", "m1", "h"};
  for (std::size_t tier = 0; tier < names.size(); ++tier) {
    BOOST_TEST(key_of(core, "foobar", tier) == "weir:{r:40/64}/foobar:" + names[tier]);
  }
  std::string marker;
  core->append_marker(marker, "foobar", 0x1f);
  BOOST_TEST(marker == "weir:{r:40/64}/foobar:s000000000000001f");
}

// A group, a resource or a subject may look like a bucket, and another number of buckets may give
// the same one.
BOOST_AUTO_TEST_CASE(keys_with_and_without_buckets_never_meet) {
  std::set<std::string> keys;
  std::size_t count = 0;
  const auto add = [&](const core_ptr& core, std::string_view subject) {
    keys.insert(key_of(core, subject));
    BOOST_TEST(keys.size() == ++count, key_of(core, subject));
  };
  for (const std::size_t buckets : {1, 2, 4, 64}) {
    const auto core = make_core("r", three, {.subject_buckets = buckets});
    for (const char* subject : {"x", "x:y", "/x", "0/1}/x"}) add(core, subject);
  }
  for (const char* group : {"r:0/1", "r:0/1}/x", "r"}) {
    for (const char* resource : {"x", "/x"}) {
      for (const char* subject : {"y", "x:y"})
        add(make_core(resource, three, {.group = group}), subject);
    }
  }
  for (const char* subject : {"0/1", "0/1}/x", "x"}) add(make_core("r", three), subject);
}

BOOST_AUTO_TEST_CASE(limiters_with_other_buckets_are_not_of_one_resource) {
  const auto none = make_core("r", three);
  const auto some = make_core("r", three, {.subject_buckets = 16});
  const auto more = make_core("r", three, {.subject_buckets = 64});
  const auto same = make_core("r", three, {.subject_buckets = 64});
  BOOST_TEST(none->resource_id != some->resource_id);
  BOOST_TEST(some->resource_id != more->resource_id);
  BOOST_TEST(more->resource_id == same->resource_id);
  BOOST_TEST(some->origin_of(1) != more->origin_of(1));
  BOOST_TEST(more->origin_of(1) == same->origin_of(1));
}

BOOST_AUTO_TEST_CASE(checks_of_one_bucket_share_a_call_in_a_cluster) {
  const auto calls = [](std::size_t buckets) {
    const auto core = make_core("r", three, {.subject_buckets = buckets});
    std::deque<fake_check> checks;
    for (int i = 0; i < 60; ++i) checks.emplace_back(core, "subject " + std::to_string(i));
    const auto all = keys_of_calls(checks);
    std::set<std::string> keys;
    for (const auto& call : all) {
      for (const std::string& key : call) {
        BOOST_TEST(weir::detail::hash_tag(key) == weir::detail::hash_tag(call.front()));
        keys.insert(key);
      }
    }
    for (int i = 0; i < 60; ++i) {
      BOOST_TEST(keys.contains(key_of(core, "subject " + std::to_string(i))));
    }
    return all.size();
  };
  BOOST_TEST(calls(0) == 60u);
  BOOST_TEST(calls(1) == 2u);  // of 32 keys at most, because the server has not answered yet
  BOOST_TEST(calls(4) == 4u);
}

BOOST_AUTO_TEST_CASE(a_number_out_of_range_and_a_group_are_refused) {
  boost::asio::io_context io;
  const auto store = make_memory_store(io.get_executor());
  const auto refused = [&](const limiter_options& options, std::string_view text) {
    const auto says_so = [&](const boost::system::system_error& e) {
      return e.code() == error::invalid_policy &&
             std::string_view(e.what()).find(text) != std::string_view::npos;
    };
    BOOST_CHECK_EXCEPTION(limiter(store, "r", three, options), boost::system::system_error,
                          says_so);
    BOOST_CHECK_EXCEPTION(
        concurrency_limiter(store, "r",
                            {.group = options.group, .subject_buckets = options.subject_buckets}),
        boost::system::system_error, says_so);
  };
  refused({.subject_buckets = 16'385}, "subject_buckets: at most 16384");
  refused({.subject_buckets = static_cast<std::size_t>(-1)}, "subject_buckets: at most 16384");
  refused({.group = "g", .subject_buckets = 1}, "subject_buckets: must be 0 with a group");
  limiter(store, "r", three, {.subject_buckets = 16'384});
  limiter(store, "r", three, {.group = "g", .subject_buckets = 0});
}

// A memory store divides its bound among its shards, by the hash tag: with few tags, most of it
// could not be used.
BOOST_AUTO_TEST_CASE(a_memory_store_has_no_buckets) {
  boost::asio::io_context io;
  const auto store = make_memory_store(io.get_executor());
  const weir::detail::limiter_spec spec(store.backend(), "r", tiers(three), {.subject_buckets = 2});
  std::string key;
  spec.append_key(key, "a");
  BOOST_TEST(key == ":{r:a}:f");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace subject_buckets_test
