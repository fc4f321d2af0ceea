// Turns on their way back: no line is too full for them, and they are sent however late they are.
#include "check/give_back.hpp"
#include "pipeline_fixture.hpp"
#include "support/test.hpp"

namespace pipeline_give_back_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_stage;

/// A turn of subject "turn" on its way back, as the library makes it.
class returned_reservation {
 public:
  explicit returned_reservation(const core_ptr& core)
      : booked_(core, "turn", 1, check_kind::acquire), check_(make(booked_)) {}
  ~returned_reservation() { check_.finish(weir::detail::delivery::discard); }
  returned_reservation(const returned_reservation&) = delete;
  returned_reservation& operator=(const returned_reservation&) = delete;

  weir::detail::check& operator*() { return check_; }

 private:
  static weir::detail::check& make(fake_check& reserved) {
    reserved.answer.allowed = true;
    reserved.answer.delay = reserved.answer.reset_after = 1ms;  // it comes soon
    return weir::detail::make_give_back(taken_by(reserved));
  }

  fake_check booked_;
  weir::detail::check& check_;
};

struct give_back_fixture : connected_fixture {
  /// From now on the server is known to take so long.
  void answer_slowly(std::chrono::milliseconds each) {
    for (int i = 0; i < 8; ++i) {
      submit("slow" + std::to_string(i), 1, check_kind::record, 1h);
      write();
      now += each;
      answer_all();
    }
  }
};

/// Keeps the last check that it was given.
class asked_store final : public weir::detail::store_backend {
 public:
  asked_store() : store_backend(boost::asio::system_executor()) {}

  void start(weir::detail::check& c) override {
    last = &c;
    ++asked;
  }
  void cancel(weir::detail::check&, weir::detail::cancel_scope) override {}
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }

  weir::detail::check* last = nullptr;
  int asked = 0;
};

BOOST_AUTO_TEST_SUITE(pipeline_give_back_suite)

// Each was refused as `overloaded`, and its turn kept everybody out, although what gives back is
// bounded by what was reserved.
BOOST_AUTO_TEST_CASE(a_full_line_turns_no_give_back_away) {
  fixture f({.max_pending = 2});
  returned_reservation turns[] = {returned_reservation(f.core), returned_reservation(f.core)};
  for (const char* s : {"a", "b"}) f.submit(s);
  for (returned_reservation& t : turns) {
    f.line.submit(*t, f.now);
    BOOST_TEST(((*t).flight.stage == check_stage::waiting));
  }
  BOOST_TEST(done_with(f.submit("c"), error::overloaded));
  f.line.take_done();
  f.line.connected();
  BOOST_TEST(count_of(f.write(), "{r:turn}") >= 2u);
  f.answer_all();
  for (returned_reservation& t : turns) BOOST_TEST(((*t).flight.stage == check_stage::done));
}

// Its deadline is about as near as its turn: where answers are slow, it was passed over as too late
// to be answered, and never sent. No caller waits for that answer.
BOOST_AUTO_TEST_CASE(a_give_back_is_sent_however_late_its_answer_will_be) {
  give_back_fixture f;
  returned_reservation turn(f.core);
  f.answer_slowly(3s);
  f.now += 2s;  // the pause before the next key of a slow server is over
  f.line.expire(f.now);
  // More than are looked at again by the next write.
  for (int i = 0; i < 1100; ++i)
    f.submit("hasty" + std::to_string(i), 1, check_kind::record, 300ms);
  f.line.submit(*turn, f.now);
  f.submit("patient", 1, check_kind::record, 1h);
  const std::string out = f.write();
  BOOST_TEST(count_of(out, "{r:hasty") == 0u);
  BOOST_TEST(count_of(out, "{r:turn}") >= 1u);
  BOOST_TEST(((*turn).flight.stage == check_stage::sent));
  f.answer_all();
  BOOST_TEST(((*turn).flight.stage == check_stage::done));
  // One that can wait goes out when the slow server has room for it.
  BOOST_TEST(count_of(out + f.write(), "{r:patient}") == 1u);
}

// The store's close waits for it no longer than a timeout.
BOOST_AUTO_TEST_CASE(a_closing_connection_does_not_wait_for_a_pause_between_keys) {
  fixture f({}, 1);
  f.line.connected();
  // Fast once, which tells the round trip; then slow twice.
  for (const auto each : {1ms, 900ms, 1400ms}) {
    f.submit("s", 1, check_kind::record, 1h);
    f.write();
    f.now += each;
    f.answer_all();
  }
  returned_reservation turn(f.core);
  f.line.submit(*turn, f.now);
  BOOST_TEST(f.write().empty());  // the pause
  f.line.close();
  BOOST_TEST(count_of(f.write(), "{r:turn}") >= 1u);
  BOOST_TEST(((*turn).flight.stage == check_stage::sent));
  f.answer_all();
}

// The circuit is open for everybody else.
BOOST_AUTO_TEST_CASE(a_give_back_waits_while_the_circuit_is_open) {
  fixture f({.max_pending = 2, .timeout = 10ms, .breaker_failures = 1});
  returned_reservation turn(f.core);
  f.submit("a");
  f.line.expire(f.now += 10ms);
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
  f.line.submit(*turn, f.now);
  BOOST_TEST(((*turn).flight.stage == check_stage::waiting));
  f.line.connected();
  BOOST_TEST(count_of(f.write(), "{r:turn}") >= 1u);
  f.answer_all();
}

// A server whose certificate had expired, or that refused the login, had them dropped: one that
// waited already, and one that came meanwhile. Their turns kept everybody out, also when the server
// was back.
BOOST_AUTO_TEST_CASE(a_give_back_waits_while_the_server_refuses_the_store) {
  for (const error why : {error::tls_failed, error::authentication_failed}) {
    fixture f;
    returned_reservation turns[] = {returned_reservation(f.core), returned_reservation(f.core)};
    auto& waiting = f.submit("a");
    f.line.submit(*turns[0], f.now);
    f.line.refused(why);
    f.line.submit(*turns[1], f.now);
    f.line.refused(why);
    BOOST_TEST(done_with(waiting, why));
    BOOST_TEST(done_with(f.submit("a"), why));
    for (returned_reservation& t : turns) {
      BOOST_TEST(((*t).flight.stage == check_stage::waiting));
    }
    f.line.take_done();
    f.line.connected();
    BOOST_TEST(count_of(f.write(), "{r:turn}") >= 2u);
    f.answer_all();
    for (returned_reservation& t : turns) BOOST_TEST(((*t).flight.stage == check_stage::done));
  }
}

// They do not wait for ever: each has its own deadline, and a store that closes waits for none.
BOOST_AUTO_TEST_CASE(a_give_back_that_no_server_takes_ends) {
  fixture f;
  returned_reservation late(f.core), closed(f.core);
  f.line.refused(error::authentication_failed);
  f.line.submit(*late, f.now);
  f.line.expire(f.now += 1s);
  BOOST_TEST(((*late).flight.stage == check_stage::done));
  f.line.submit(*closed, f.now);
  f.line.close();
  f.line.refused(error::authentication_failed);
  BOOST_TEST(((*closed).flight.stage == check_stage::done));
  f.line.take_done().clear();
}

// What lost 100 swaps to other processes was dropped.
BOOST_AUTO_TEST_CASE(a_give_back_is_repeated_if_its_failure_may_pass) {
  for (const auto& [e, may_pass] :
       {std::pair(error::outcome_unknown, true), std::pair(error::protocol_error, true),
        std::pair(error::store_contention, true), std::pair(error::server_error, false)}) {
    const auto store = std::make_shared<asked_store>();
    const auto core = std::make_shared<weir::detail::limiter_spec>(
        store, "r", tiers(fixed_window{.limit = 1, .window = 1h}), limiter_options{});
    fake_check reserved(core, "turn", 1, check_kind::acquire);
    reserved.answer.allowed = true;
    store->last = &weir::detail::make_give_back(taken_by(reserved));
    store->last->ec = e;
    store->last->finish(weir::detail::delivery::dispatch);
    BOOST_TEST(store->asked == (may_pass ? 1 : 0), error_code(e).message());
    if (may_pass) store->last->finish(weir::detail::delivery::discard);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_give_back_test
