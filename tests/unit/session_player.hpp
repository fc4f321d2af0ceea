#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "session_stage.hpp"

namespace weir::redis::test {

/// Plays a scenario, and strikes with faults in between.
class player : public stage {
 public:
  player(const scenario& s, manner m, std::vector<fault> faults) : stage(s, m, std::move(faults)) {}

  /// The scenario, and what comes after it: a new connection if need be, and a check that succeeds.
  void run() {
    for (;;) {
      while (!over()) go_on();
      // The end is a place for a fault as well.
      if (abandoned_ || closed_ || !strikes_here()) break;
    }
    told_steps_ = steps_.size();
    told_writes_ = writes_.size();
    if (abandoned_) return judge_all();
    if (!closed_) recover();
    if (closed_) BOOST_TEST(done_with(submit("later"), error::store_closed));
    judge_all();
    BOOST_TEST_REQUIRE(core.line().pending() == 0u);
    BOOST_TEST_REQUIRE(struck_ == faults_.size());
    // One new connection for each that was lost, and no other.
    if (!closed_) BOOST_TEST_REQUIRE(static_cast<std::size_t>(opens) == 1 + lost_.size());
  }

  /// The steps of the scenario, and its end.
  std::span<const situation> steps() const { return {steps_.data(), told_steps_}; }
  using stage::write_seen;
  std::span<const write_seen> writes() const { return {writes_.data(), told_writes_}; }
  /// The step at which the last fault struck.
  std::size_t struck_at() const { return struck_at_; }

 private:
  bool over() const {
    return abandoned_ || (closed_ && core.current() == state::stopped) ||
           (next_questions_ == scenario_.asked.size() && all_finished() && !coming_back_ &&
            (server_.pings >= scenario_.pings || closed_));
  }

  void go_on() {
    BOOST_TEST_REQUIRE(steps_.size() < 1000u);
    if (next_step() == step::wait) {
      const std::size_t before = next_questions_;
      ask(when::in_quiet);
      if (next_questions_ != before) return;
    }
    if (!strikes_here()) perform(steps_.back().next);
  }

  bool strikes_here() {
    const std::size_t number = steps_.size();
    steps_.push_back(look());
    for (const fault& f : faults_) {
      if (is_of_write(f.what) || f.at != number) continue;
      strike(f.what);
      return true;
    }
    return false;
  }

  void strike(kind what);
  void recover();
  void judge_all() const {
    for (const asked_check& a : asked_) judge(a, {scenario_, manner_, faults_});
  }

  std::size_t told_steps_ = 0, told_writes_ = 0;  // of all, up to the scenario's end
  bool closed_ = false;
  bool abandoned_ = false;
};

inline void player::strike(kind what) {
  ++struck_;
  struck_at_ = steps_.size() - 1;
  const auto fail_open = [&](error e) {
    lose();
    opened(e);
  };
  const auto come = [&](const std::string& bytes) {
    lose();
    server_.replies.clear();
    silent_ = true;
    const int closes_before = closes;
    received(bytes);
    BOOST_TEST_REQUIRE(closes == closes_before + 1);  // not only once it is silent for long
  };
  const auto half_a_reply = [&] {
    const std::string& reply = server_.replies.front().bytes;
    return reply.substr(0, reply.size() / 2);
  };
  const auto hang_up = [&](error e) {
    lose();
    server_.replies.clear();
    received_nothing(e);
  };
  const auto cancel = [&](detail::cancel_scope scope, bool all) {
    for (asked_check& a : asked_) {
      if (a.finished()) continue;
      const bool waits = a.check->stage == detail::check_stage::waiting;
      a.cancelled = scope;
      core.cancel(*a.check, scope);
      pump();
      BOOST_TEST_REQUIRE(a.finished() == (waits || scope == detail::cancel_scope::any));
      if (!all) break;
    }
  };
  const std::string garbage = "HTTP/1.1 400 Bad Request\r\n\r\n";
  // Behind half a reply, what comes must not complete it: the rest of a text may be any bytes.
  const std::string not_the_rest = "\n" + std::string(2000, '!');
  const std::string end = cut_ ? not_the_rest : "";
  switch (what) {
    case kind::open_fails:
      fail_open(error::connection_refused);
      break;
    case kind::open_hung_up:
      fail_open(error::closed_by_peer);
      break;
    case kind::open_tls_failed:
      fail_open(error::tls_failed);
      break;
    case kind::read_fails:
      hang_up(error::outcome_unknown);
      break;
    case kind::read_tls_failed:
      hang_up(error::tls_failed);
      break;
    case kind::read_fails_halfway: {
      lose();
      cut_ = true;
      received(half_a_reply());
      break;
    }
    case kind::garbage:
      come(end + garbage);
      break;
    case kind::garbage_halfway:
      come(half_a_reply() + not_the_rest + garbage);
      break;
    case kind::wrong_reply:
      come(end + "+OK\r\n");
      break;
    case kind::silence:
      lose();
      silent_ = true;
      break;
    case kind::deadline:
      for (int i = 0; i < 2; ++i) {  // the timer comes late, and puts them off
        for (const asked_check& a : asked_) {
          if (!a.finished()) now = std::max(now, a.check->deadline);
        }
        rested_ = rested_ || core.current() == state::pausing;
        core.on_time(now);
      }
      pump();
      BOOST_TEST_REQUIRE(all_finished());
      break;
    case kind::cancel_one:
      cancel(detail::cancel_scope::any, false);
      break;
    case kind::cancel_all:
      cancel(detail::cancel_scope::any, true);
      break;
    case kind::cancel_unsent:
      cancel(detail::cancel_scope::only_unsent, true);
      break;
    case kind::close:
      closed_ = true;
      core.close(now), core.stop_when_idle();
      pump();
      BOOST_TEST_REQUIRE(all_finished());
      break;
    case kind::abandon: {
      abandoned_ = true;
      auto left = core.abandon();
      for (; !left.empty(); left.pop_front()) left.front().finish(detail::delivery::discard);
      BOOST_TEST_REQUIRE(core.line().pending() == 0u);
      BOOST_TEST_REQUIRE((core.wakeup() == moment::max()));
      break;
    }
    case kind::write_fails:
    case kind::write_stuck:
    case kind::count:
      break;
  }
  if (!abandoned_) notice();
}

/// The server is well again. There is a connection soon, and it serves.
inline void player::recover() {
  server_.interrupts = {};
  const auto settled = [&] {
    return core.current() == state::ready && !writing && server_.replies.empty() &&
           !server_.hangs_up && !cut_ && !silent_ && !stuck_;
  };
  while (!settled()) go_on();
  BOOST_TEST_REQUIRE(core.line().pending() == 0u);
  BOOST_TEST_REQUIRE(core.line().replies_due() == 0u);
  static const question fresh{"fresh"};
  const fake_check& c = ask(fresh);
  while (c.finished == 0) go_on();
  BOOST_TEST_REQUIRE(done_with(c, {}));
  BOOST_TEST_REQUIRE(c.answer.used == 1);
}

}  // namespace weir::redis::test
