// The search for the master with a fault at each of its steps: first as it is meant to go, which
// tells its steps; then again and again, with everything that can go wrong at each of them. Each
// question gets one answer, and that is the master of then.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sentinel_driver.hpp"

namespace sentinel_faults_test {
namespace {

using namespace std::chrono_literals;
using namespace weir::redis::test;
using weir::error;
using state = sentinel_driver::state;
using moment = sentinel_driver::moment;

// clang-format off
enum class fault {
  none,
  open_fails, open_tls_failed, open_hangs, write_fails, read_fails, half_a_reply, garbage,
  garbage_halfway, wrong_reply, no_such_master, no_permission, no_login, loading, null, no_host,
  silence, another_master_moves, asked_again, asked_elsewhere, forgotten, stopped,
  count
};
// clang-format on

/// Three Sentinels that know where the master is, and a client that asks them, hears of a failover,
/// asks again, and then asks another Sentinel.
class player : public sentinel_driver {
 public:
  player(fault what, std::size_t at) : what_(what), at_(at) {}

  bool struck = false;
  std::size_t steps = 0;

  void run() {
    put();
    while (!over()) go_on();
    if (what_ == fault::stopped && struck) {
      BOOST_TEST_REQUIRE((core.wakeup() == moment::max()));
      return;
    }
    // One new connection for the fault at the most, and one for the question elsewhere.
    BOOST_TEST_REQUIRE(opens <= 2 + (struck ? 1 : 0));
    BOOST_TEST_REQUIRE(heard_failover_);
    // The connection that is left serves: the next failover is heard, too.
    while (core.current() != state::watching || !writing.empty() || !replies_.empty()) go_on();
    const int before = moves;
    say(switched("mymaster"));
    BOOST_TEST_REQUIRE(moves == before + 1);
  }

 private:
  static constexpr int questions = 4;

  bool over() const {
    if (core.current() == state::stopped) return true;
    return asked_ == questions && !waits_;
  }

  void go_on() {
    BOOST_TEST_REQUIRE(steps < 500u, "the search hangs");
    const bool strikes = steps++ == at_;
    if (!strikes || !strike()) perform();
    take();
  }

  /// One event of a good network.
  void perform() {
    if (opening) {
      replies_.clear();
      silent_ = false;
      return opened(error{});
    }
    if (!writing.empty()) {
      if (!silent_) read_by_sentinel(writing);
      return written();
    }
    if (reading && !replies_.empty()) return say(std::exchange(replies_, {}));
    if (!waits_ && asked_ < questions && core.current() != state::stopped) return put();
    wait();
  }

  /// Asks the next question; before the second one, the master moves.
  void put() {
    ++asked_;
    waits_ = true;
    if (asked_ == 2 && core.current() == state::watching) {
      master_ = "10.0.0.2";
      say(switched("mymaster"));
      BOOST_TEST_REQUIRE(moves == (told_ ? 1 : 0));  // nobody is at a master that was not named
      heard_failover_ = true;
    } else if (asked_ == 2) {
      // No Sentinel is listened to at this moment: the master moves later.
      --asked_;
      waits_ = false;
      return wait();
    }
    ask(asked_ == 3);
  }

  void take() {
    if (!answer) return;
    // There are three Sentinels and one fault: the question is answered, and truly.
    BOOST_TEST_REQUIRE(waits_);
    BOOST_TEST_REQUIRE(was_told(master_, 6379), "told " << answer->host);
    answer.reset();
    waits_ = false;
    told_ = true;
  }

  void read_by_sentinel(const std::string& bytes) {
    const auto count = [&](std::string_view what) {
      std::size_t n = 0;
      for (auto at = bytes.find(what); at != bytes.npos; at = bytes.find(what, at + 1)) ++n;
      return n;
    };
    if (count("HELLO") > 0) replies_ += sentinel_hello;
    if (count("SUBSCRIBE") > 0) replies_ += subscribed;
    for (std::size_t n = count("GET-MASTER-ADDR"); n > 0; --n) replies_ += address(master_, 6379);
    for (std::size_t n = count("PING"); n > 0; --n) replies_ += "+PONG\r\n";
  }
  void say(const std::string& bytes) { received(bytes); }

  /// False if the fault cannot strike here.
  bool strike() {
    const bool has_reply = reading && !replies_.empty() && writing.empty();
    const auto instead = [&](const std::string& bytes) {
      if (!has_reply) return false;
      replies_.clear();
      const int before = closes;
      say(bytes);
      BOOST_TEST_REQUIRE(closes == before + 1);  // at once, not only after a silence
      return true;
    };
    struck = true;
    switch (what_) {
      case fault::open_fails:
        if (opening) return opened(error::connection_refused), true;
        break;
      case fault::open_tls_failed:
        if (opening) return opened(error::tls_failed), true;
        break;
      case fault::open_hangs:
        if (opening) return wait(), true;
        break;
      case fault::write_fails:
        if (!writing.empty()) return written(false), true;
        break;
      case fault::read_fails:
        if (reading) return replies_.clear(), received_nothing(), true;
        break;
      case fault::half_a_reply:
        if (!has_reply) break;
        say(replies_.substr(0, replies_.size() / 2));
        replies_.clear();
        if (reading) received_nothing();
        return true;
      case fault::garbage:
        if (instead("HTTP/1.1 400 Bad Request\r\n\r\n")) return true;
        break;
      case fault::garbage_halfway:
        if (instead(replies_.substr(0, replies_.size() / 2) + "\n?!\r\n")) return true;
        break;
      case fault::wrong_reply:  // more than is due
        if (instead(replies_ + "+OK\r\n:1\r\n:2\r\n:3\r\n")) return true;
        break;
      case fault::no_such_master:
        if (instead("-ERR No such master with that name\r\n")) return true;
        break;
      case fault::no_permission:
        if (instead("-NOPERM this user has no permissions\r\n")) return true;
        break;
      case fault::no_login:
        if (instead("-NOAUTH Authentication required.\r\n")) return true;
        break;
      case fault::loading:
        if (instead("-LOADING Redis is loading the dataset in memory\r\n")) return true;
        break;
      case fault::null:
      case fault::no_host: {
        // In place of the address, the last reply.
        const std::size_t last = replies_.rfind("*2\r\n");
        const std::string bad = what_ == fault::null ? unknown_master : address("", 6379);
        if (last != replies_.npos && instead(replies_.substr(0, last) + bad)) return true;
        break;
      }
      case fault::silence:
        if (!opening && (reading || !writing.empty())) {
          silent_ = true;
          replies_.clear();
          return true;
        }
        break;
      case fault::another_master_moves:
        if (core.current() == state::watching && reading) {
          const int before = moves;
          say(switched("mymaster2"));
          BOOST_TEST_REQUIRE(moves == before);
          return true;
        }
        break;
      case fault::asked_again:
      case fault::asked_elsewhere:
        if (waits_) return ask(what_ == fault::asked_elsewhere), true;
        break;
      case fault::forgotten:
        if (waits_) {
          core.forget();
          waits_ = false;
          return true;
        }
        break;
      case fault::stopped:
        core.stop();
        pump();
        BOOST_TEST_REQUIRE((core.current() == state::stopped));
        return true;
      case fault::none:
      case fault::count:
        break;
    }
    struck = false;
    return false;
  }

  const fault what_;
  const std::size_t at_;
  std::string master_ = "10.0.0.1";
  std::string replies_;  // on their way
  bool silent_ = false;  // this connection brings no reply any more
  bool waits_ = false;
  bool told_ = false;
  bool heard_failover_ = false;
  int asked_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sentinel_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step) {
  player good(fault::none, 0);
  good.run();
  BOOST_TEST(good.opens == 2);
  BOOST_TEST(good.steps > 10u);
  for (int what = 1; what < static_cast<int>(fault::count); ++what) {
    int struck = 0;
    for (std::size_t at = 0; at <= good.steps; ++at) {
      BOOST_TEST_CONTEXT("fault " << what << " at step " << at) {
        player p(static_cast<fault>(what), at);
        p.run();
        struck += p.struck ? 1 : 0;
      }
    }
    BOOST_TEST(struck > 0, "fault " << what);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sentinel_faults_test
