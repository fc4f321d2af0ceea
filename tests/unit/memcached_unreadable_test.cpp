// Values in memcached that this version cannot read: of a later version, foreign, damaged.
#include "memcached/subject_value.hpp"
#include "memcached_item.hpp"
#include "support/random_source.hpp"

namespace memcached_unreadable_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check_kind;
using weir::detail::lease_act;
using weir::detail::settle_cause;
using weir::memcached::check_batch;
using weir::memcached::subject_value;
using item = memcached_item;
using verdict = item::verdict;

constexpr std::int64_t now = item::now;

BOOST_AUTO_TEST_SUITE(memcached_unreadable_suite)

BOOST_AUTO_TEST_CASE(a_value_of_a_later_version_stays_as_it_is_until_a_reset) {
  const core_ptr core = make_core("r", fixed_window{.limit = 5, .window = 10s});
  const core_ptr cooled = make_core("r", fixed_window{.limit = 5, .window = 10s},
                                    {.cool_downs = true});
  const core_ptr gate = make_gate();
  const std::pair<core_ptr, fake_request> calls[] = {
      {core, check_kind::record},   {core, check_kind::fetch},       {core, check_kind::acquire},
      {core, check_kind::settle},   {core, settle_cause::give_back}, {core, settle_cause::vendor},
      {cooled, check_kind::record}, {cooled, check_kind::cool_down}, {gate, lease_act::enter},
      {gate, check_kind::fetch},    {gate, lease_act::renew},        {gate, lease_act::leave},
  };
  for (unsigned char version = subject_value::version + 1; version < 32; ++version) {
    item stored;
    stored.bytes = std::string(1, static_cast<char>(version)) + "anything";
    const std::string before = stored.bytes;
    for (const auto& [limiter, kind] : calls) {
      fake_check c(limiter, "a", 1, kind);
      stored.run({&c});
      WEIR_TEST_ERROR(c.ec, error::newer_state);
      BOOST_TEST((stored.last == verdict::unchanged));
      BOOST_TEST(stored.bytes == before);
    }
    fake_check reset(core, "a", 0, check_kind::reset);
    stored.run({&reset});
    BOOST_TEST(!reset.ec.failed());
    BOOST_TEST((stored.last == verdict::erase));
    // One that comes behind a reset counts from zero.
    stored.bytes = before;
    fake_check first(core, "a"), forget(core, "a", 0, check_kind::reset), last(core, "a");
    stored.run({&first, &forget, &last});
    WEIR_TEST_ERROR(first.ec, error::newer_state);
    BOOST_TEST((!forget.ec.failed() && !last.ec.failed()));
    BOOST_TEST(last.answer.used == 1);
    BOOST_TEST((stored.last == verdict::store));
  }
}

// It was taken for a foreign one.
BOOST_AUTO_TEST_CASE(a_large_value_of_a_later_version_stays_as_it_is_until_a_reset) {
  const core_ptr core = make_core("r", fixed_window{.limit = 5, .window = 10s});
  const auto run = [&](fake_request kind, std::string_view begin) {
    fake_check c(core, "a", 1, kind);
    weir::detail::check_list list;
    list.push_back(c.check());
    std::string out;
    check_batch batch;
    const auto r = batch.run(list, begin, true, now, item::roomy, out);
    list.clear();
    return std::pair(error_code(c.check().ec), r.what);
  };
  for (const check_kind kind : {check_kind::record, check_kind::fetch}) {
    const auto [ec, what] = run(kind, std::string_view("\x02", 1));
    WEIR_TEST_ERROR(ec, error::newer_state);
    BOOST_TEST((what == verdict::unchanged));
  }
  // Another process stores larger values than this one reads.
  const auto [own, unchanged] = run(check_kind::record, std::string_view("\x01", 1));
  WEIR_TEST_ERROR(own, error::state_too_large);
  BOOST_TEST((unchanged == verdict::unchanged));
  const auto [foreign, as_it_is] = run(check_kind::record, "z");
  WEIR_TEST_ERROR(foreign, error::wrong_type);
  BOOST_TEST((as_it_is == verdict::unchanged));
  for (const std::string_view begin : {"\x01", "\x02", "z"}) {
    const auto [ec, what] = run(check_kind::reset, begin);
    BOOST_TEST(!ec.failed());
    BOOST_TEST((what == verdict::erase));
  }
}

// Each name was compared with all before it: a value of a megabyte kept the connection busy for
// minutes.
BOOST_AUTO_TEST_CASE(a_value_of_very_many_sections_is_foreign) {
  const auto of_sections = [](int count) {
    std::string bytes(1, '\x01');
    for (int i = 0; i < count; ++i) {
      bytes += {'\x04',
                'n',
                static_cast<char>('a' + i % 16),
                static_cast<char>('a' + i / 16 % 16),
                static_cast<char>('a' + i / 256),
                '\x05',
                '\0'};
    }
    return bytes;
  };
  subject_value value;
  BOOST_TEST((value.decode(of_sections(200), 0) == error{}));
  BOOST_TEST((value.decode(of_sections(2000), 0) == error::wrong_type));
}

BOOST_AUTO_TEST_CASE(a_foreign_value_is_an_error_until_a_reset) {
  const core_ptr core = make_core("r", fixed_window{.limit = 5, .window = 10s});
  for (const std::string& foreign :
       {std::string("a value of somebody else"), std::string(1, '\0'), std::string("\x01zzz"),
        std::string("\x01\x01"), std::string("\x01\x01m\x05\x7f")}) {
    item stored;
    stored.bytes = foreign;
    fake_check before(core, "a"), reset(core, "a", 0, check_kind::reset), after(core, "a");
    stored.run({&before});
    WEIR_TEST_ERROR(before.ec, error::wrong_type);
    BOOST_TEST(stored.bytes == foreign);
    stored.run({&before, &reset, &after});
    WEIR_TEST_ERROR(before.ec, error::wrong_type);
    BOOST_TEST(!reset.ec.failed());
    BOOST_TEST(after.answer.allowed);
    BOOST_TEST(after.answer.used == 1);
    BOOST_TEST((stored.last == verdict::store));
  }
}

// No bytes bring the kernels numbers that they cannot bear (the sanitizers look).
BOOST_AUTO_TEST_CASE(damaged_values_do_no_harm) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  random_source random(seed, 7201);
  int unreadable = 0;
  for (const policy& p : limits_of_three) {
    const core_ptr core = make_core("r", p);
    item good;
    for (int i = 0; i < 3; ++i) good.record(core, now + i);
    for (int i = 0; i < 500; ++i) {
      item stored = good;
      for (std::int64_t n = random.between(1, 3); n > 0; --n) {
        const auto at = static_cast<std::size_t>(
            random.between(1, static_cast<std::int64_t>(stored.bytes.size()) - 1));
        stored.bytes[at] = static_cast<char>(random.between(0, 255));
      }
      if (random.one_in(4)) stored.bytes.resize(stored.bytes.size() / 2);
      fake_check record(core, "a"), acquire(core, "a", 1, check_kind::acquire);
      stored.run({&record});
      if (core->can_settle) stored.run({&acquire});
      unreadable += record.ec == error::wrong_type ? 1 : 0;
    }
  }
  BOOST_TEST(unreadable > 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_unreadable_test
