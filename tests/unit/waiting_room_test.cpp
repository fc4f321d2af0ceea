// What a waiting_room adds to its lines: which thread calls the store, and what it knows of cool-
// downs.
#include "waiting/waiting_room.hpp"

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "limiter/limiter_impl.hpp"
#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "support/watched_store.hpp"
#include "weir/memory_store.hpp"

namespace waiting_room_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error_code;

/// Cool-downs of many subjects.
struct many_cool_downs {
  using clock = std::chrono::steady_clock;
  // As many as a limiter remembers.
  static constexpr int most = 10'000;

  weir::waiting::known_cool_downs known;
  int named = 0;

  std::string cool_down(std::chrono::microseconds pause) {
    std::string subject = std::to_string(++named);
    const auto now = clock::now();
    known.note(key_of(subject), now + pause, now, 100ms);
    return subject;
  }
  void cool_down_many(int count, std::chrono::microseconds pause) {
    for (int i = 0; i < count; ++i) cool_down(pause);
  }
  std::uint64_t key_of(std::string_view subject) const { return known.key_of(1, subject); }
  bool remembers(std::string_view subject) const {
    return known.until(key_of(subject)) > clock::now();
  }
  bool knows_of(std::string_view subject) const {
    return known.until(key_of(subject)) != clock::time_point{};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiting_room_suite)

// A client that chose its name could have the waiters of another one refused.
BOOST_AUTO_TEST_CASE(a_subject_of_the_same_hash_has_a_cool_down_of_its_own) {
  const std::string_view victim = "account-42";
  const std::uint64_t words[] = {0xe7037ed1a0b428dbu ^ 1,
                                 weir::detail::subject_hash(victim) ^ 16 ^ 0xa0761d6478bd642fu};
  const std::string_view other(reinterpret_cast<const char*>(words), sizeof(words));
  BOOST_REQUIRE(weir::detail::subject_hash(other) == weir::detail::subject_hash(victim));
  many_cool_downs all;
  const auto now = many_cool_downs::clock::now();
  all.known.note(all.key_of(other), now + 1h, now, 100ms);
  BOOST_TEST(all.knows_of(other));
  BOOST_TEST(!all.knows_of(victim));
}

// Once it was full, the cool-downs of further subjects would be forgotten for ever.
BOOST_AUTO_TEST_CASE(a_full_table_of_cool_downs_takes_others_when_some_have_ended) {
  many_cool_downs l;
  const std::string long_one = l.cool_down(1h);
  l.cool_down_many(l.most - 1, 0us);
  const std::string next = l.cool_down(1h);
  BOOST_TEST(l.remembers(next));
  BOOST_TEST(l.remembers(long_one));
  l.cool_down_many(l.most - 2, 1h);
  BOOST_TEST(!l.knows_of(l.cool_down(1h)));  // all of them still go on
  BOOST_TEST(l.remembers(long_one));
}

// A full table was searched through for each further subject: a vendor that holds back more of them
// than it takes cost 10,000 looks a call. Now that is done once a second.
BOOST_AUTO_TEST_CASE(a_full_table_of_cool_downs_is_searched_once_a_second) {
  bool in_time = false, is_remembered = false;
  while (!in_time) {
    many_cool_downs l;
    l.cool_down_many(l.most, 0us);
    const auto begin = many_cool_downs::clock::now();
    BOOST_TEST_REQUIRE(l.remembers(l.cool_down(1h)));
    l.cool_down_many(l.most - 1, 0us);
    is_remembered = l.knows_of(l.cool_down(1h));
    in_time = many_cool_downs::clock::now() <
              begin + 1s;  // else the machine stood still: once more
  }
  BOOST_TEST(!is_remembered);
}

// Two threads of the store's context gave reservations back at a time. So the first one went back
// while later ones stood behind it, and its hour stayed taken.
BOOST_AUTO_TEST_CASE(reservations_that_go_back_meanwhile_go_after_the_later_ones) {
  boost::asio::io_context io;
  std::array<boost::asio::cancellation_signal, 3> signals;
  const auto cancel = [&](std::size_t i) {
    signals[i].emit(boost::asio::cancellation_type::terminal);
  };
  int returned = 0, aborted = 0;
  const weir::store store(std::make_shared<weir::test::watched_store>(
      weir::make_memory_store(io.get_executor()), [&](const weir::detail::check& c) {
        if (!c.traits.gives_back || ++returned != 1) return;
        cancel(0);
        io.poll();  // as another thread would
      }));
  const weir::limiter limiter{store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 1}};
  limiter.record("a", [](error_code, const decision&) {});
  for (auto& signal : signals) {
    limiter.acquire(
        "a", {.max_wait = 24h},
        boost::asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, const decision&) {
          aborted += ec == boost::asio::error::operation_aborted;
        }));
  }
  io.poll();
  cancel(2);
  cancel(1);
  io.poll();
  BOOST_TEST(aborted == 3);
  BOOST_TEST(returned == 3);
  decision left;
  limiter.fetch("a", [&](error_code, const decision& d) { left = d; });
  weir::test::run_out(io);
  BOOST_TEST((left.reset_after <= 1h));
}

// The store closed while another thread gave reservations back, and stopped before it had got all.
BOOST_AUTO_TEST_CASE(a_closing_store_stays_until_it_has_all_reservations_back) {
  boost::asio::io_context io;
  std::array<boost::asio::cancellation_signal, 2> signals;
  std::shared_ptr<void> keep_alive = std::make_shared<int>();
  const std::weak_ptr<void> is_alive = keep_alive;
  std::weak_ptr<const weir::detail::limiter_spec> core;
  int returned = 0;
  const weir::store store(std::make_shared<weir::test::watched_store>(
      weir::make_memory_store(io.get_executor()), [&](const weir::detail::check& c) {
        if (c.kind == weir::detail::check_kind::acquire) core = c.limiter;
        if (!c.traits.gives_back) return;
        BOOST_TEST(!is_alive.expired());
        if (++returned == 1) {  // as another thread would
          weir::detail::impl_of(*core.lock()).room->close(std::move(keep_alive));
        }
      }));
  const weir::limiter limiter{store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 1}};
  limiter.record("a", [](error_code, const decision&) {});
  for (auto& signal : signals) {
    limiter.acquire(
        "a", {.max_wait = 24h},
        boost::asio::bind_cancellation_slot(signal.slot(), [](error_code, const decision&) {}));
  }
  io.poll();
  for (auto& signal : signals) signal.emit(boost::asio::cancellation_type::terminal);
  weir::test::run_out(io);
  BOOST_TEST(returned == 2);
  BOOST_TEST(is_alive.expired());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiting_room_test
