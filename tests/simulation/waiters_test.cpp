// A hundred thousand waiters of each policy, in simulated time. Every reservation must be the very
// microsecond that it should be.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <stdexcept>

#include "simulation/crowd.hpp"
#include "simulation/simulated_time.hpp"
#include "support/reservation_ledger.hpp"
#include "support/watched_store.hpp"
#include "weir/weir.hpp"

namespace waiters_test {
namespace {

using namespace weir;
namespace asio = boost::asio;
using simulation::shape;
using simulation::subjects;
using simulation::waiter;
using std::chrono::microseconds;
using test::reservation_ledger;

/// The store's clock, so far ahead of the simulated one.
constexpr std::int64_t ahead = 1'790'000'000'123'456;

enum class who_leaves { nobody, the_last, anybody };

/// One store, and all its waiters.
class simulated_run : simulation::crowd {
 public:
  simulated_run(const shape& s, who_leaves who)
      : crowd(s, 1000 + static_cast<std::uint32_t>(who)), who_(who) {}

  reservation_ledger::totals run(std::int64_t count) {
    run_all(count);
    return check();
  }

 private:
  /// The reservations of one subject, and their waiters by their receipts.
  struct book {
    reservation_ledger ledger;
    std::map<std::uint64_t, std::size_t> held;
  };

  static std::int64_t clock() { return ahead + simulation::now(); }

  void arrive() override {
    waiter& w = next_waiter(who_ == who_leaves::anybody);
    lines_[w.subject].push_back(w.number);
    ask(limiter_, w, w.leaves_after);
  }

  void settle() override { context_.poll(); }

  void disturb(bool) override {
    if (who_ == who_leaves::the_last && random_.one_in(4)) the_last_leave();
  }

  /// Some of the waiters that came last to one subject, at once or one by one.
  void the_last_leave() {
    settle();
    auto& line = lines_[static_cast<std::size_t>(random_.between(0, subjects - 1))];
    const bool at_once = random_.one_in(2);
    for (std::int64_t n = random_.magnitude(random_.one_in(5) ? 100 : 4); n > 0; --n) {
      while (!line.empty() && all_[line.back()].answers > 0) line.pop_back();
      if (line.empty()) break;
      leave(all_[line.back()]);
      line.pop_back();
      if (!at_once) settle();
    }
  }

  /// What the store sees, in its order.
  void watch(const detail::check& c) {
    const std::size_t subject = simulation::subject_number(c.subject.view());
    book& b = books_[subject];
    const decision& d = c.answer;
    if (c.traits.gives_back) {
      const auto& returned = detail::as<detail::settle_request>(c).about;
      const auto held = b.held.find(returned.receipt.id);
      if (held == b.held.end()) throw std::runtime_error("given back twice, or never reserved");
      b.ledger.give_back(clock(), held->second);
      b.held.erase(held);
      return;
    }
    if (c.kind != detail::check_kind::acquire || c.ec) throw std::runtime_error("not a turn");
    const auto& asked = detail::as<detail::acquire_request>(c);
    const auto turn = d.allowed ? d.decided_at + d.delay
                                : d.decided_at + d.retry_after + asked.max_wait;
    const std::size_t number = b.ledger.ask({.at = d.decided_at.time_since_epoch().count(),
                                             .cost = c.units,
                                             .max_wait = asked.max_wait.count(),
                                             .allowed = d.allowed,
                                             .turn = turn.time_since_epoch().count()});
    if (d.allowed) b.held.emplace(d.receipt.id, number);
  }

  reservation_ledger::totals check() {
    reservation_ledger::totals sum;
    for (std::size_t subject = 0; subject < subjects; ++subject) {
      const book& b = books_[subject];
      sum += b.ledger.check(shape_.policies);
      if (who_ == who_leaves::the_last && shape_.leaves_no_trace) {
        b.ledger.check_as_if_they_had_never_come(shape_.policies);
      }
      check_waiters(subject, b);
    }
    return sum;
  }

  /// Each reservation that was not given back has woken one waiter, not always the one that got it;
  /// no other was woken.
  void check_waiters(std::size_t subject, const book& b) const {
    std::multiset<std::pair<std::int64_t, std::int64_t>> kept, used;
    for (const auto& [id, number] : b.held) {
      kept.emplace(b.ledger[number].turn, b.ledger[number].cost);
    }
    std::size_t asked = 0;
    for (const waiter& w : all_) {
      if (w.subject != subject) continue;
      check_waiter(w);
      ++asked;
      if (!w.ec && w.said.allowed) used.emplace(w.turn(), w.cost);
    }
    if (used != kept) throw std::runtime_error("a turn was used twice, or by nobody");
    if (b.ledger.size() > asked) throw std::runtime_error("somebody was asked for twice");
  }

  /// Each waiter hears once: if it is refused, at once; else when its reservation comes, to the
  /// microsecond.
  static void check_waiter(const waiter& w) {
    const auto require = [](bool holds, const char* what) {
      if (!holds) throw std::runtime_error(what);
    };
    require(w.answers == 1, "somebody was not answered once");
    require(!w.ec || w.ec == asio::error::operation_aborted, "an error");
    if (w.ec) return;
    require(w.said.decided_at.time_since_epoch().count() == w.frame_hint + ahead,
            "a time of another clock");
    if (w.said.allowed) {
      require(w.answered_at + ahead == w.turn(), "woken at another time than its turn");
      require(w.said.delay.count() <= w.max_wait, "made to wait for too long");
    } else {
      require(w.answered_at == w.frame_hint, "refused too late");
    }
  }

  const who_leaves who_;
  simulation::simulated_context context_;
  const store memory_ = make_memory_store(
      context_.io().get_executor(), {.clock = [] { return time_point(microseconds(clock())); }});
  const limiter limiter_ = shape_.open(store(std::make_shared<weir::test::watched_store>(
      memory_, [this](const detail::check& c) { watch(c); })));
  std::array<book, subjects> books_;
  std::array<std::vector<std::size_t>, subjects> lines_;
};

void run_all(who_leaves who) {
  for (const shape& s : simulation::shapes()) {
    BOOST_TEST_CONTEXT(s.name << ", WEIR_TEST_SEED=" << test::run_seed()) {
      try {
        const auto sum = simulated_run(s, who).run(simulation::count_of_waiters());
        BOOST_TEST_MESSAGE(s.name << ": " << sum.text());
        const std::int64_t some = simulation::count_of_waiters() / 50;
        BOOST_TEST(sum.at_once > some);
        BOOST_TEST(sum.reserved > some);
        BOOST_TEST(sum.refused > some);
        BOOST_TEST((who == who_leaves::nobody) == (sum.given_back == 0));
      } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(waiters_suite)

BOOST_AUTO_TEST_CASE(all_waiters_stay) { run_all(who_leaves::nobody); }

BOOST_AUTO_TEST_CASE(the_last_leave) { run_all(who_leaves::the_last); }

BOOST_AUTO_TEST_CASE(anybody_leaves) { run_all(who_leaves::anybody); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiters_test
