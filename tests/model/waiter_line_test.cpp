// The line of acquire() against a plain one: after each of many random events, the same callers
// have been told the same, and the same has been asked, cancelled and given back.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>

#include "model/plain_line.hpp"
#include "support/random_source.hpp"
#include "unit/line_fixture.hpp"

namespace waiter_line_test {
namespace {

using namespace std::chrono_literals;
using namespace weir;
using detail::cancel_scope;
using model::plain_line;
using test::line_stage;

constexpr int traces_wanted = 1500;
constexpr int steps_per_trace = 160;

struct tally {
  std::size_t allowed = 0, refused = 0, overloaded = 0, aborted = 0, failed = 0;
  std::size_t asked = 0, cancelled = 0, returned = 0;
};

const char* const no_reply = "no reply";

error_code error_called(const std::string& name) {
  if (name.empty()) return {};
  if (name == "aborted") return boost::asio::error::operation_aborted;
  return name == no_reply ? error::no_reply : error::timed_out;
}
std::string name_of(const error_code& ec) {
  if (ec == error::overloaded) return "overloaded";
  if (ec == boost::asio::error::operation_aborted) return "aborted";
  return ec == error::no_reply ? no_reply : "timed out";
}

/// A trace of one line, whose store makes a reservation after the last one.
class trace final {
 public:
  trace(test::random_source& random, int number) : random_(random), number_(number) {
    manner_.max_waiting = static_cast<std::size_t>(random.between(1, 12));
    manner_.overflow = random.pick(
        std::array{on_overflow::refuse_new, on_overflow::drop_lowest_priority});
    manner_.priority_aging = random.one_in(3) ? 0us
                                              : std::chrono::microseconds(random.magnitude(2000));
    manner_.retry_interval = std::chrono::microseconds(random.magnitude(2000));
    manner_.same_end = std::chrono::microseconds(random.magnitude(2000) - 1);
    stage_ = std::make_unique<line_stage>(manner_);
    plain_ = std::make_unique<plain_line>(manner_.max_waiting, manner_.overflow,
                                          manner_.priority_aging.count(),
                                          manner_.retry_interval.count(), manner_.same_end.count());
  }

  void run(tally& sum) {
    sum_ = &sum;
    for (step_ = 0; step_ < steps_per_trace; ++step_) take_step(false);
    // Each waiter that is left is told in the end, whatever the store says.
    for (; !stage_->line->is_idle(); ++step_) {
      if (step_ > 100 * steps_per_trace) fail("somebody is never told");
      take_step(true);
    }
    for (const auto& c : stage_->callers) {
      if (c.is_in_room()) fail("an idle line has a waiter");
    }
  }

 private:
  struct reply {
    std::string failure;
    decision d;
  };

  reply reply_to(std::size_t which) {
    if (random_.one_in(20)) return {random_.one_in(2) ? no_reply : "timed out", {}};
    if (random_.one_in(20)) last_ = 0;  // a reset
    const std::int64_t turn = std::max(now(), last_ + random_.magnitude(1000) - 1);
    const auto& a = stage_->requests[which];
    reply r;
    r.d.decided_at = stage_->clock();
    r.d.source = random_.one_in(20) ? source::fallback : source::store;
    const std::chrono::microseconds wait(turn - now());
    r.d.allowed = wait <= a.max_wait;
    if (r.d.allowed) {
      r.d.delay = wait;
      last_ = turn;
    } else {
      r.d.retry_after = wait - a.max_wait;
    }
    return r;
  }

  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(stage_->now.time_since_epoch())
        .count();
  }

  void take_step(bool comes_to_an_end) {
    const std::int64_t what = random_.between(0, 99);
    if (what < 40) {
      if (!comes_to_an_end) arrive();
    } else if (what < 50) {
      leave();
    } else if (what < 80) {
      answer();
    } else if (what < 98 || comes_to_an_end) {
      pass_time();
    } else {
      cool_down();
    }
    // Requests may wait before they are started.
    stage_->store_is_busy = random_.one_in(4);
    if (comes_to_an_end || !stage_->store_is_busy) start_requests();
  }

  void start_requests() {
    stage_->start_requests();
    plain_->start_all();
  }

  void cool_down() {
    const std::int64_t pause = random_.magnitude(8000);
    stage_->cool_down(std::chrono::microseconds(pause));
    plain_->cool_down(now() + pause);
    compare("a cool-down began");
  }

  void arrive() {
    const auto priority = static_cast<std::int32_t>(random_.one_in(2) ? 0 : random_.between(-3, 3));
    const std::int64_t patience = random_.one_in(3) ? 5000 : random_.magnitude(20'000) - 1;
    const std::int64_t cost = random_.one_in(2) ? 1 : random_.between(1, 3);
    stage_->arrive(priority, std::chrono::microseconds(patience), cost);
    plain_->arrive(priority, patience, cost);
    compare("somebody came");
  }

  void leave() {
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < stage_->callers.size(); ++i) {
      if (stage_->waits(i)) there.push_back(i);
    }
    if (there.empty()) return;
    const std::size_t who = random_.pick(there);
    const bool only_unsent = random_.one_in(4);
    stage_->leave(who, only_unsent ? cancel_scope::only_unsent : cancel_scope::any);
    plain_->leave(static_cast<std::int64_t>(who), only_unsent);
    compare("somebody left");
  }

  void answer() {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < plain_->requests().size(); ++i) {
      if (plain_->requests()[i].is_out && plain_->requests()[i].is_started) out.push_back(i);
    }
    if (out.empty()) return;
    // Answers come in order, but for those that were cancelled or late.
    const std::size_t which = random_.one_in(5) ? random_.pick(out) : out.front();
    reply r = reply_to(which);
    if (unwanted_[which] && !random_.one_in(4)) r = {"aborted", {}};
    stage_->answer(which, r.d, error_called(r.failure));
    plain_->answer(static_cast<std::int64_t>(which), r.failure, r.d);
    compare("the store answered " + std::to_string(which));
  }

  void pass_time() {
    const auto end = stage_->now + std::chrono::microseconds(random_.magnitude(3000));
    while (stage_->line->wakeup() <= end) {
      const auto wakeup = stage_->line->wakeup();
      if (wakeup < stage_->now) fail("it wants to be woken in the past");
      stage_->wait(wakeup - stage_->now > 0s
                       ? std::chrono::duration_cast<std::chrono::microseconds>(wakeup - stage_->now)
                       : 0us);
      plain_->now = now();
      plain_->on_time();
      compare("time");
    }
    stage_->now = end;
    plain_->now = now();
    // It is woken for whatever there is to do.
    plain_->on_time();
    compare("time without a wakeup");
  }

  void compare(const std::string& after) {
    std::vector<std::string> told, asked, cancelled, returned;
    for (const std::size_t who : stage_->told()) {
      const auto& c = stage_->callers[who];
      const decision& d = c.answer;
      count(c.ec, d);
      const std::int64_t at = d.decided_at.time_since_epoch().count();
      const std::int64_t retry_after = d.retry_after.count();
      told.push_back(std::to_string(who) + " " +
                     (c.ec ? name_of(c.ec)
                      : d.cooling_down
                          ? std::to_string(at) + " in a pause"
                          : std::to_string(at) + "+" + std::to_string(d.delay.count()) + "/" +
                                std::to_string(retry_after)));
      if (!d.cooling_down) continue;
      const std::int64_t least = plain_->callers()[who].back_after;
      if (retry_after < least || retry_after > least + least / 10) {
        fail(after + ": to come back after " + std::to_string(retry_after) + ", not " +
             std::to_string(least));
      }
    }
    const auto for_whom = stage_->requested();
    for (std::size_t i = 0; i < for_whom.size(); ++i) {
      const auto& a = stage_->requests[stage_->requests.size() - for_whom.size() + i];
      asked.push_back(std::to_string(for_whom[i]) + " within " +
                      std::to_string(a.max_wait.count()));
    }
    unwanted_.resize(stage_->requests.size());
    for (const std::size_t a : stage_->cancelled()) {
      unwanted_[a] = true;
      cancelled.push_back(std::to_string(a));
    }
    for (const std::size_t a : stage_->returned()) returned.push_back(std::to_string(a));
    sum_->asked += asked.size();
    sum_->cancelled += cancelled.size();
    sum_->returned += returned.size();

    // Several waiters that are refused at once are in no order.
    std::sort(told.begin(), told.end());
    std::sort(plain_->told.begin(), plain_->told.end());
    check(after + ", told", told, plain_->told);
    check(after + ", asked", asked, plain_->asked);
    check(after + ", cancelled", cancelled, plain_->cancelled);
    check(after + ", returned", returned, plain_->returned);
    if (!stage_->store_is_busy) plain_->start_all();
    if (plain_->count_bounded() > manner_.max_waiting) fail("too many are inside");
  }

  void count(const error_code& ec, const decision& d) {
    std::size_t& one = !ec                       ? (d.allowed ? sum_->allowed : sum_->refused)
                       : ec == error::overloaded ? sum_->overloaded
                       : ec == boost::asio::error::operation_aborted ? sum_->aborted
                                                                     : sum_->failed;
    ++one;
  }

  void check(const std::string& what, const std::vector<std::string>& is,
             std::vector<std::string>& should_be) {
    if (is != should_be) fail(what + ":\n  is " + joined(is) + "\n  not " + joined(should_be));
    should_be.clear();
  }
  static std::string joined(const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& one : all) text += one + "; ";
    return text;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(
        "WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " trace " + std::to_string(number_) +
        " step " + std::to_string(step_) + " room for " + std::to_string(manner_.max_waiting) +
        ", overflow " + std::to_string(static_cast<int>(manner_.overflow)) + ", priority_aging " +
        std::to_string(manner_.priority_aging.count()) + ": " + what);
  }

  test::random_source& random_;
  const int number_;
  line_stage::manner manner_;
  std::unique_ptr<line_stage> stage_;
  std::unique_ptr<plain_line> plain_;
  std::vector<bool> unwanted_;  // requests that were cancelled
  std::int64_t last_ = 0;       // the last reservation reserved
  int step_ = 0;
  tally* sum_ = nullptr;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiter_line_suite)

BOOST_AUTO_TEST_CASE(the_line_does_what_a_plain_one_does) {
  test::random_source random(test::run_seed(), 950);
  tally sum;
  for (int n = 0; n < traces_wanted; ++n) {
    trace t(random, n);
    t.run(sum);
  }
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed() << ": " << sum.asked << " asked, "
                                       << sum.allowed << " allowed, " << sum.refused << " refused, "
                                       << sum.overloaded << " overloaded, " << sum.aborted
                                       << " aborted, " << sum.failed << " failed, " << sum.cancelled
                                       << " cancelled, " << sum.returned << " returned");
  for (const std::size_t n : {sum.allowed, sum.refused, sum.overloaded, sum.aborted, sum.failed,
                              sum.asked, sum.cancelled, sum.returned}) {
    BOOST_TEST(n > static_cast<std::size_t>(traces_wanted / 2));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiter_line_test
