// Calls that wait, and a store that finds no memory.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <utility>

#include "check/detached_check.hpp"
#include "scarce_memory.hpp"
#include "support/fake_check.hpp"
#include "support/watched_store.hpp"
#include "waiting/reservation_returns.hpp"

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

/// Drops what it is asked, and throws.
class throwing_store final : public detail::store_backend {
 public:
  using store_backend::store_backend;

  void start(detail::check& c) override {
    c.finish(detail::delivery::discard);
    throw std::bad_alloc();
  }
  void cancel(detail::check&, detail::cancel_scope) override {}
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }
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

// Requests that had to come behind the reservations were never started.
BOOST_AUTO_TEST_CASE(what_follows_reservations_that_go_back_follows_although_the_store_throws) {
  asio::io_context io;
  const auto core = std::make_shared<detail::limiter_spec>(
      std::make_shared<throwing_store>(io.get_executor()), "r", tiers(bucket), limiter_options{});
  const test::fake_check reservation(core, "a", 1, check_kind::acquire);
  waiting::reservation_returns returns;
  int sent = 0;
  returns.add(io.get_executor(), {&detail::make_give_back(reservation)}, [&] { ++sent; });
  BOOST_CHECK_THROW(io.poll(), std::bad_alloc);
  BOOST_TEST(sent == 1);
}

BOOST_AUTO_TEST_SUITE_END()
