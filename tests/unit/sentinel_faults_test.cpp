// The search for the master with a fault at each of its steps. Each question gets one answer, and
// that is the master of then.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fault_plays.hpp"
#include "sentinel_driver.hpp"
#include "support/command_reader.hpp"

namespace sentinel_faults_test {
namespace {

using namespace weir::redis::test;
using namespace weir::test;
using weir::error;

/// Each Sentinel: all know where the master is.
class fake_sentinel final : public server_end {
 public:
  std::string master = "10.0.0.1";

  error accept() override {
    end();
    reader_.clear();
    return {};
  }
  void read(std::string_view bytes) override {
    reader_.feed(bytes);
    while (const auto words = reader_.next()) {
      const std::string& name = words->front();
      const bool is_hello = name == "HELLO";
      replies.push_back({is_hello              ? sentinel_hello
                         : name == "SUBSCRIBE" ? subscribed
                                               : address(master, 6379),
                         {},
                         true});
    }
  }

 private:
  command_reader reader_;
};

/// Three Sentinels, and a client that asks them, hears of a failover, asks again, and then asks
/// another Sentinel.
class sentinel_player final : public player {
 public:
  sentinel_player(manner m, std::vector<planned_fault> faults) : player({}, m, std::move(faults)) {
    link_.settles_at_once = false;
    link_.how = m;
    link_.server = &server_;
    put();
  }

 private:
  static constexpr int questions = 4;
  enum own : std::size_t { another_master_moves, asked_again, asked_elsewhere, forgotten, owns };

  std::vector<wire*> wires() override { return {&link_}; }
  asked_check& ask(const question&, wire*) override { throw std::logic_error("no checks"); }
  bool carries(wire&) override { return false; }
  const std::vector<saying>& sayings() const override {
    // What is no error is said in place of an address only.
    static const std::vector<saying> all = {
        {"-ERR No such master with that name\r\n"},
        {"-NOPERM this user has no permissions\r\n"},
        {"-NOAUTH Authentication required.\r\n"},
        {"-LOADING Redis is loading the dataset in memory\r\n"},
        {"_\r\n"},
        {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n"},
        {"*2\r\n$1\r\nh\r\n$1\r\n0\r\n"},
    };
    return all;
  }
  /// More than is due.
  std::string_view wrong_reply() const override { return "+OK\r\n+OK\r\n+OK\r\n+OK\r\n"; }
  bool may_say(std::size_t which, const wire& w) const override {
    return w.is_up() && w.reading && !w.server->replies.empty() && !w.is_cut &&
           (sayings()[which].text.front() == '-' || w.server->replies.front().bytes[0] == '*');
  }
  void say(const saying& s, wire& w) override {
    const int before = w.closes;
    lose(w);
    w.say_last(std::string(s.text));
    BOOST_TEST_REQUIRE(w.closes == before + 1);  // at once, not only after a silence
  }
  std::size_t opens_due(const wire&) const override { return 0; }
  bool may_abandon() const override { return false; }
  bool ask_more() override { return put(); }
  bool has_more_to_do() const override { return waits_ || asked_questions_ < questions; }

  std::size_t own_faults() const override { return owns; }
  bool is_possible(std::size_t which, const wire& w) const override {
    if (which == another_master_moves) return w.is_at_rest() && w.is_up() && w.reading;
    return waits_;
  }
  void strike_own(std::size_t which, wire&) override {
    if (which == another_master_moves) {
      const int before = link_.moves;
      link_.received(switched("mymaster2"));
      BOOST_TEST_REQUIRE(link_.moves == before);
    } else if (which == forgotten) {
      link_.core.forget();
      waits_ = false;
    } else {
      if (which == asked_elsewhere) lose(link_);
      link_.ask(which == asked_elsewhere);
    }
  }

  /// Asks the next question; before the second one, the master moves. False if no Sentinel is
  /// listened to at this moment: the master moves later.
  bool put() {
    if (waits_ || link_.closed || asked_questions_ == questions) return false;
    if (asked_questions_ == 1) {
      if (!link_.is_at_rest() || !link_.reading || link_.silent) return false;
      server_.master = "10.0.0.2";
      const int before = link_.moves;
      link_.received(switched("mymaster"));
      BOOST_TEST_REQUIRE(link_.moves == before + (told_ ? 1 : 0));  // it follows one that was named
      has_moved_ = true;
    }
    waits_ = true;
    link_.ask(++asked_questions_ == 3);
    return true;
  }
  void look() override {
    // Each attempt goes to another Sentinel than the last one.
    if (std::exchange(seen_opens_, link_.opens) != link_.opens) {
      BOOST_TEST_REQUIRE(std::exchange(last_host_, link_.host) != link_.host);
    }
    if (!link_.answer) return;
    BOOST_TEST_REQUIRE(waits_);
    // The question elsewhere, and two faults: all three Sentinels have failed.
    if (faults_.size() == 2 && link_.answer->failure != error{}) return link_.ask();
    // Otherwise the question is answered, and truly.
    BOOST_TEST_REQUIRE(link_.was_told(server_.master, 6379), "told " << link_.answer->host);
    link_.answer.reset();
    waits_ = false;
    told_ = true;
  }
  void ask_afresh() override {
    if (link_.closed) {
      BOOST_TEST_REQUIRE((link_.is_stopped() && link_.wakeup() == moment::max()));
      return;
    }
    // One new connection for the fault at the most, and one for the question elsewhere.
    BOOST_TEST_REQUIRE(link_.opens <= 2 + static_cast<int>(link_.lost.size()));
    BOOST_TEST_REQUIRE(has_moved_);
    // The connection that is left serves: the next failover is heard, too.
    const int before = link_.moves;
    link_.received(switched("mymaster"));
    BOOST_TEST_REQUIRE(link_.moves == before + 1);
  }

  fake_sentinel server_;
  sentinel_driver link_;
  int seen_opens_ = 0;
  std::string last_host_;
  bool waits_ = false, told_ = false, has_moved_ = false;
  int asked_questions_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sentinel_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_and_any_two) {
  plays all;
  const auto make = [](manner m, const std::vector<planned_fault>& faults) {
    return std::make_unique<sentinel_player>(m, faults);
  };
  for (const manner m : manners()) {
    all.play_all("three Sentinels", m, make);
    all.play_pairs("three Sentinels", m, make, is_sanitized ? 256 : 16);
  }
  all.expect_all({fault_kind::read_tls_failed, fault_kind::deadline, fault_kind::cancel_one,
                  fault_kind::cancel_all, fault_kind::cancel_unsent, fault_kind::abandon});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sentinel_faults_test
