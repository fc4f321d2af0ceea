// Calls that wait, and a store that finds no memory.
#include <boost/test/unit_test.hpp>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "check/give_back.hpp"
#include "limiter/limiter_impl.hpp"
#include "scarce_memory.hpp"
#include "support/fake_check.hpp"
#include "support/watched_store.hpp"
#include "waiting/reservation_returns.hpp"
#include "waiting/waiter_line.hpp"

namespace {

using detail::check_kind;

constexpr token_bucket bucket{.capacity = 10, .refill = per_second(1)};

/// A store that throws once after it has taken a request for a reservation.
struct throwing_world : world {
  bool throws = true;
  store once{std::make_shared<test::watched_store>(memory, [this](const detail::check& c) {
    if (c.kind == check_kind::acquire && std::exchange(throws, false)) throw std::bad_alloc();
  })};
};

/// Drops what it is asked, and may throw.
class dropping_store final : public detail::store_backend {
 public:
  dropping_store(asio::io_context& io, bool throws)
      : store_backend(io.get_executor()), throws_(throws) {}

  void start(detail::check& c) override {
    c.finish(detail::delivery::discard);
    if (throws_) throw std::bad_alloc();
  }
  void cancel(detail::check&, detail::cancel_scope) override {}
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }

 private:
  const bool throws_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiting_without_memory_suite)

// The thread that had thrown was thought to submit still: no later request was started.
BOOST_AUTO_TEST_CASE(requests_are_started_after_the_store_has_thrown) {
  throwing_world w;
  const limiter l(w.once, "r", bucket);
  const auto acquire = [&](handler h) { l.acquire("a", h); };
  const result first = w.call(acquire);
  BOOST_TEST(w.has_thrown);
  BOOST_TEST(first.answers == 1);
  BOOST_TEST(w.call(acquire).answer.allowed);
}

BOOST_AUTO_TEST_CASE(joint_requests_are_started_after_the_store_has_thrown) {
  throwing_world w;
  const limiter one(w.once, "one", bucket, {.group = "g"}),
      two(w.once, "two", bucket, {.group = "g"});
  const auto acquire = [&](handler h) { acquire_all(one.on("a"), two.on("a"), h); };
  const result first = w.call(acquire);
  BOOST_TEST(w.has_thrown);
  BOOST_TEST(first.answers == 1);
  BOOST_TEST(w.call(acquire).answer.allowed);
}

// The state that a reservation had found was freed twice.
BOOST_AUTO_TEST_CASE(a_give_back_of_several_limiters_that_finds_no_memory_is_as_if_not_made) {
  const auto core = test::make_core("r", bucket);
  std::vector<detail::term> further;
  further.push_back({core, detail::short_text("another subject, with a long name"), 1});
  const detail::taken_units reservation{
      .limiter = core,
      .subject = detail::short_text("a subject, with a name too long for a check to hold it"),
      .units = 1,
      .about = {},
      .further = std::move(further),
      .found = {1, 2, 3}};
  for_each_allocation([&](long number) {
    return throws_with_failure(
        number, [&] { detail::make_give_back(reservation).finish(detail::delivery::discard); });
  });
}

// The waiter kept its place for ever, without a request.
BOOST_AUTO_TEST_CASE(a_waiter_that_finds_no_memory_leaves_no_place_taken) {
  const auto core = test::make_core("r", bucket);
  for (const on_overflow how : {on_overflow::refuse_new, on_overflow::drop_lowest_priority}) {
    for_each_allocation([&](long number) {
      waiting::waiter_line line({.max_waiting = 1, .overflow = how, .priority_aging = {}}, {});
      test::fake_check first(core, "a subject with a long name", 1, check_kind::acquire);
      test::fake_check second(core, "a subject with a long name", 1, check_kind::acquire);
      waiting::orders out;
      const auto arrive = [&](test::fake_check& c) {
        line.arrive(c, 1, {}, out);
        out.starts.clear();
      };
      const auto reserve = [&](test::fake_check& c) {
        c.check().flight.room.place = detail::room_note::at_store;
        line.started();
        c.answer.allowed = true;
        c.answer.delay = std::chrono::seconds(1);
        line.answered(c, {}, {}, out);
      };
      // The first one is dropped for the second one.
      const bool is_full = how == on_overflow::drop_lowest_priority;
      if (is_full) {
        arrive(first);
        reserve(first);
        auto& asked = detail::as<detail::acquire_request>(second);
        asked.priority = 1;
        asked.max_wait = std::chrono::hours(1);  // so it takes the first one's reservation
      }
      const bool has_thrown = throws_with_failure(number, [&] {
        arrive(second);
        if (!is_full) reserve(second);
      });
      if (second.check().flight.room.place == detail::room_note::at_store) {
        line.tell(second, error::store_full, out);  // as a room does
      }
      BOOST_TEST(second.is_in_room() == !has_thrown);
      std::size_t waiters = 0;
      for (const auto* c : {&first, &second}) waiters += c->is_in_room();
      BOOST_TEST(waiters == (has_thrown && !first.is_in_room() ? 0 : 1));
      out.completed.clear();
      line.abandon(out);
      BOOST_TEST(std::distance(out.completed.begin(), out.completed.end()) ==
                 static_cast<std::ptrdiff_t>(waiters));
      out.completed.clear();
    });
  }
}

BOOST_AUTO_TEST_CASE(an_acquire_that_finds_no_memory_for_its_waiter_ends) {
  for_each_allocation([&](long number) {
    asio::io_context io;
    const auto core = std::make_shared<detail::limiter_impl>(
        std::make_shared<dropping_store>(io, false), "r", tiers(bucket), limiter_options{});
    test::fake_check c(core, "a subject with a long name", 1, check_kind::acquire);
    throws_with_failure(number, [&] { core->room->arrive(c, core->waiting_rules); });
    io.poll();
    // The store drops a check that it is asked.
    BOOST_TEST((c.is_in_room() || test::done_with(c, error::store_full)));
    BOOST_TEST(c.finished == 1);
    core->room->context_shut_down();
  });
}

// Requests that had to come behind the reservations were never started.
BOOST_AUTO_TEST_CASE(what_follows_reservations_that_go_back_follows_although_the_store_throws) {
  asio::io_context io;
  const auto core = std::make_shared<detail::limiter_spec>(
      std::make_shared<dropping_store>(io, true), "r", tiers(bucket), limiter_options{});
  waiting::reservation_returns returns;
  int sent = 0;
  returns.add(io.get_executor(), {&detail::make_give_back({core, detail::short_text("a"), 1, {}})},
              [&] { ++sent; });
  BOOST_CHECK_THROW(io.poll(), std::bad_alloc);
  BOOST_TEST(sent == 1);
}

// The name of a joint line took memory when its check ended: that ended the process.
BOOST_AUTO_TEST_CASE(a_joint_call_whose_answer_finds_no_memory_ends) {
  for_each_allocation([&](long number) {
    world w;
    const limiter one(w.memory, "one", bucket, {.group = "g"}),
        two(w.memory, "two", bucket, {.group = "g"});
    const auto acquire = [&](handler h) { acquire_all(one.on("a"), two.on("a"), h); };
    BOOST_TEST(w.call(acquire).answers == 1);
    const result r = w.call_with_failure(number, acquire);
    BOOST_TEST((w.has_thrown || r.answers == 1));
    BOOST_TEST(w.call(acquire).answers == 1);
  });
}

BOOST_AUTO_TEST_SUITE_END()
