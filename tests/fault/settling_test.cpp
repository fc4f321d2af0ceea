// Settlements whose connection is lost: tried again, each is done once, for all limiters or for
// none.
#include "fault/proxied.hpp"

namespace settling_test {

using namespace weir;
using namespace weir::test;

struct fixture : proxied {
  const limiter_options together{.group = "model"};
  weir::store straight = make_redis_store(io.get_executor(), patient_options(server));

  template <class Start>
  outcome ask(Start&& start) {
    crowd c;
    start(c.caller());
    run_until_complete(io, c);
    return c[0];
  }
  std::int64_t used(const limiter& l) { return fetch(l, "a").d.used; }
};

BOOST_FIXTURE_TEST_SUITE(settling_suite, fixture)

BOOST_AUTO_TEST_CASE(a_settlement_that_is_cut_at_any_byte_is_done_once) {
  const weir::store store = open();
  const limiter requests(store, "requests", sliding_log{1000, 24h}, together);
  const limiter tokens(store, "tokens", gcra{per_day(1), 20'000}, together);
  const limiter requests_seen(straight, "requests", sliding_log{1000, 24h}, together);
  const limiter tokens_seen(straight, "tokens", gcra{per_day(1), 20'000}, together);
  std::int64_t requests_used = 0, tokens_used = 0;
  int cut = 0, ran = 0;
  for (const way w : {way::requests, way::replies}) {
    for (std::size_t byte = 0;; byte += w == way::requests ? 61 : 7) {
      BOOST_TEST_CONTEXT("cut after " << byte << " bytes of the "
                                      << (w == way::requests ? "request" : "reply")) {
        record_until_it_succeeds(requests, "between");
        const outcome taken = ask(
            [&](auto caller) { record_all(requests.on("a", 2), tokens.on("a", 90), caller); });
        BOOST_TEST_REQUIRE(taken.d.allowed);
        const std::size_t faults = proxy.counts().all_faults();
        proxy.strike({.what = fault::kind::cut, .way = w, .after = byte});
        // Without a number of tries: the connection comes back.
        outcome o;
        bool may_have_run = false;
        run_until(io, [&] {
          o = ask([&](auto caller) {
            settle_all(taken.d, requests.on("a", 3), tokens.on("a", 40), caller);
          });
          may_have_run = may_have_run || o.ec == condition::may_have_counted;
          return !o.ec;
        });
        // It may have been done by a try whose answer was lost.
        BOOST_TEST((o.d.allowed || may_have_run));
        ran += !o.d.allowed;
        const bool was_cut = proxy.counts().all_faults() > faults;
        proxy.lift();
        BOOST_TEST(used(requests_seen) == (requests_used += 3));
        BOOST_TEST(used(tokens_seen) == (tokens_used += 40));
        cut += was_cut;
        if (!was_cut || byte > 1200) break;
      }
    }
  }
  BOOST_TEST(cut > 10);
  BOOST_TEST(ran > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settling_test
