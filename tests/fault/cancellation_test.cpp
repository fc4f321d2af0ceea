// Callers that leave at random under load, on a slow connection: every reply reaches its own
// caller, and no other.
#include "fault/ledger.hpp"
#include "fault/proxied.hpp"

namespace cancellation_test {

using namespace weir;
using namespace weir::test;
using asio::cancellation_type;

/// Calls for each account, one after the other; each answer may be the signal for another caller to
/// leave.
struct restless {
  struct call {
    asio::cancellation_signal signal;
    int left = 60;
    bool pending = false;
    bool sure = true;  // if it is aborted: that it was not counted
  };

  restless(asio::io_context& context, std::vector<account>& a, random_source& r)
      : io(context), accounts(a), random(r), calls(a.size()), running(a.size()) {
    for (std::size_t i = 0; i < calls.size(); ++i) next(i);
  }

  void next(std::size_t i) {
    call& c = calls[i];
    if (c.left-- == 0) {
      --running;
      return;
    }
    c.pending = c.sure = true;
    account& a = accounts[i];
    a.where.record(a.subject, {.cost = a.cost},
                   asio::bind_cancellation_slot(
                       c.signal.slot(), [this, i](error_code ec, decision d) { heard(i, ec, d); }));
  }

  void heard(std::size_t i, const error_code& ec, const decision& d) {
    call& c = calls[i];
    BOOST_TEST(c.pending);
    c.pending = false;
    if (ec) {
      WEIR_TEST_ERROR(ec, asio::error::operation_aborted);
      ++(c.sure ? left_unsent : left);
    } else {
      ++answered;
    }
    accounts[i].hear(ec, d, c.sure);
    if (random.one_in(2)) send_away(static_cast<std::size_t>(random.between(0, calls.size() - 1)));
    next(i);
  }

  void send_away(std::size_t i) {
    constexpr cancellation_type kinds[] = {cancellation_type::terminal, cancellation_type::partial,
                                           cancellation_type::total};
    const cancellation_type how = random.pick(kinds);
    asio::post(io, [this, i, how] {
      call& c = calls[i];
      if (!c.pending) return;
      if (how != cancellation_type::total) c.sure = false;
      c.signal.emit(how);
    });
  }

  asio::io_context& io;
  std::vector<account>& accounts;
  random_source& random;
  std::deque<call> calls;
  std::size_t running;
  std::size_t answered = 0;
  std::size_t left = 0;
  std::size_t left_unsent = 0;
};

BOOST_FIXTURE_TEST_SUITE(cancellation_suite, proxied)

BOOST_AUTO_TEST_CASE(replies_reach_their_own_callers_while_others_leave) {
  const auto straight = one_limiter_of_each_kind(
      make_redis_store(io.get_executor(), patient_options(server)));
  for (std::uint32_t stream = 0; stream < 6; ++stream) {
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed() << ", stream " << stream) {
      random_source random(run_seed(), stream);
      const auto piece = [&] { return static_cast<std::size_t>(random.between(100, 400)); };
      const auto pause = [&] { return std::chrono::microseconds(random.between(500, 2500)); };
      proxy.plan([&](std::size_t) {
        return std::vector<fault>{{.what = fault::kind::delay,
                                   .way = way::requests,
                                   .after = 20'000,  // not the handshake
                                   .pause = pause(),
                                   .again = 8 * piece()},
                                  {.what = fault::kind::delay,
                                   .way = way::replies,
                                   .after = 400,
                                   .pause = pause(),
                                   .again = piece()}};
      });
      const std::size_t before = proxy.counts().accepted;
      const auto limiters = one_limiter_of_each_kind(open());
      auto accounts = open_accounts(io, limiters, straight, 60, "stream " + std::to_string(stream));
      restless crowd(io, accounts, random);
      run_until(io, [&] { return crowd.running == 0; });
      BOOST_TEST(crowd.answered > 0u);
      BOOST_TEST(crowd.left > 0u);
      BOOST_TEST_MESSAGE(crowd.answered << " answered, " << crowd.left << " left, "
                                        << crowd.left_unsent << " of them surely unsent");
      check_in_the_end(io, accounts, straight);
      // No cancelled call took the connection along
      BOOST_TEST(proxy.counts().accepted == before + 1);
    }
  }
  BOOST_TEST(proxy.counts().of(fault::kind::delay) > 100u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cancellation_test
