#pragma once

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fault_kinds.hpp"

namespace weir::test {

/// Plays a scenario, strikes with faults in between, and judges what callers were told, in the
/// manner of Boost.MySQL's tests of its network algorithms. A protocol brings its connections and
/// their servers, its checks, and what is special about it.
class player {
 public:
  player(std::vector<questions> scenario, manner m, std::vector<planned_fault> faults)
      : how(m), faults_(std::move(faults)), scenario_(std::move(scenario)) {}
  virtual ~player() = default;

  /// The scenario, and what comes after it: a new connection if need be, and calls that succeed.
  void run() {
    ask_group(when::at_first);
    notice();
    for (;;) {
      while (!over()) go_on();
      // The end is a place for a fault as well.
      if (all_are(&wire::abandoned) || all_are(&wire::closed) || !strikes_here()) break;
    }
    explores = false;
    if (!all_are(&wire::abandoned)) recover();
    for (const asked_check* a : asked_) judge(*a);
    judge_all();
    BOOST_TEST_REQUIRE(struck_ == faults_.size());
  }

  bool explores = false;  // notes the faults that are possible from the last one on
  std::vector<planned_fault> possible;
  std::size_t steps = 0;

 protected:
  using kind = fault_kind;
  static constexpr question fresh{"fresh"}, later{"later", error::store_closed};

  // ---- what a protocol brings

  virtual std::vector<wire*> wires() = 0;
  /// A check of a caller: of this connection's, or of any.
  virtual asked_check& ask(const question& q, wire* by) = 0;
  /// A write was handed out. True if it carries checks.
  virtual bool carries(wire& w) = 0;
  virtual const std::vector<saying>& sayings() const = 0;
  virtual std::string_view wrong_reply() const { return "+OK\r\n"; }
  /// What separates two calls in a write.
  virtual std::string_view next_call() const { return "\r\n*"; }
  /// How many connections are made while nothing is lost. 0: not counted.
  virtual std::size_t opens_due(const wire&) const { return 1; }
  virtual bool may_deadlines_come() const { return how.hasty; }
  virtual bool may_abandon() const { return true; }

  /// More that can go wrong: their number, whether one can here, and its coming.
  virtual std::size_t own_faults() const { return 0; }
  virtual bool is_possible(std::size_t, const wire&) const { return true; }
  virtual void strike_own(std::size_t, wire&) {}

  virtual bool has_more_to_do() const { return false; }
  /// When there is nothing else to do. False: nothing either.
  virtual bool ask_more() { return false; }
  /// Something has happened.
  virtual void look() {}
  virtual bool proceed(wire& w) { return w.proceed(); }
  virtual void wait() {
    const auto all = live();
    const auto next = std::min_element(all.begin(), all.end(),
                                       [](wire* a, wire* b) { return a->wakeup() < b->wakeup(); });
    (*next)->wait();
  }
  virtual bool may_say(std::size_t, const wire& w) const {
    return w.is_up() && w.reading && !w.is_greeting() && !all_finished();
  }
  virtual void say(const saying& s, wire& w) {
    w.server->refuses = s.text;
    w.server->turns_away_then = s.ends;
  }
  virtual void cancel(asked_check& a, detail::cancel_scope scope) {
    const_cast<wire*>(a.by)->cancel(*a.check, scope);
  }
  virtual void pass_deadlines() {
    for (wire* w : live()) {
      for (const asked_check* a : asked_) {
        if (!a->finished()) w->now = std::max(w->now, a->check->deadline);
      }
      w->on_time();
    }
  }
  virtual void close(wire& w) {
    w.closed = true, w.close(), w.pump();
    for (const asked_check* a : asked_) BOOST_TEST_REQUIRE((a->by != &w || a->finished()));
  }
  virtual void abandon(wire& w) {
    w.abandoned = true, w.abandon();
    BOOST_TEST_REQUIRE((w.is_empty() && w.wakeup() == moment::max()));
  }
  virtual bool is_settled(const wire& w) const { return w.is_at_rest(); }
  /// All is well again.
  virtual void mend() {}
  virtual void ask_afresh() {
    for (wire* w : live()) ask(w->closed ? later : fresh, w);
  }
  virtual bool may_be_told(const asked_check& a, error_code e) const;
  virtual bool is_expected(const asked_check& a) const { return a.is_told(a.told); }
  /// Whether the server knows which checks it has run.
  virtual bool knows_fates() const { return true; }
  virtual void judge_all() {}

  // ---- for a protocol

  std::vector<wire*> live() {
    auto all = wires();
    std::erase_if(all, [](const wire* w) { return w->abandoned; });
    return all;
  }
  bool all_finished() const {
    return std::all_of(asked_.begin(), asked_.end(), [](const auto* a) { return a->finished(); });
  }
  bool have(std::initializer_list<kind> some) const {
    return std::any_of(faults_.begin(), faults_.end(), [&](const planned_fault& f) {
      return std::find(some.begin(), some.end(), f.what) != some.end();
    });
  }
  static void lose(wire& w) { w.lost.insert(w.opens); }
  void go_on();

  const manner how;
  const std::vector<planned_fault> faults_;
  std::vector<asked_check*> asked_;

 private:
  bool all_are(bool wire::*what) {
    const auto all = wires();
    return !all.empty() && std::all_of(all.begin(), all.end(), [&](auto* w) { return w->*what; });
  }
  bool over() {
    const auto all = live();
    const bool rests = std::all_of(all.begin(), all.end(), [](const wire* w) {
      return !w->coming_back && (!w->closed || w->is_stopped());
    });
    return rests && all_finished() &&
           (all.empty() || all_are(&wire::closed) ||
            (next_ == scenario_.size() && !has_more_to_do()));
  }
  bool ask_group(when w) {
    if (next_ == scenario_.size() || (scenario_[next_].asked != w && w != when::in_quiet)) {
      return false;
    }
    for (const question& q : scenario_[next_++].all) {
      const auto all = live();
      ask(q, all.empty() ? nullptr : all[asked_.size() % all.size()]);
      notice();
    }
    return true;
  }
  void judge(const asked_check& a) const;
  bool strikes_here();
  void explore(const wire& w);
  void strike(const planned_fault& f, wire& w);
  void notice();
  void handed_out(wire& w);
  void recover();

  const std::vector<questions> scenario_;
  std::size_t next_ = 0, idle_ = 0;
  std::size_t writes_ = 0, struck_ = 0;
};

/// One event of the connection whose turn it is; if none has any, callers ask, or time passes.
inline void player::go_on() {
  BOOST_TEST_REQUIRE(steps < 20'000u, "no end");
  const auto all = live();
  wire* const w = all.empty() ? nullptr : all[steps % all.size()];
  const bool is_quiet = idle_ + 1 >= all.size() && (w == nullptr || !w->has_event());
  if (is_quiet && (ask_group(when::in_quiet) || ask_more())) return;
  if (strikes_here()) return;
  if (w != nullptr && proceed(*w)) {
    idle_ = 0;
  } else if (++idle_ >= all.size()) {
    idle_ = 0;
    wait();
  }
  notice();
}

inline bool player::strikes_here() {
  const auto all = live();
  const std::size_t number = steps++;
  if (all.empty()) return false;
  wire& w = *all[number % all.size()];
  if (explores && struck_ == faults_.size()) explore(w);
  for (const planned_fault& f : faults_) {
    if (is_of_write(f.what) || f.at != number) continue;
    ++struck_;
    strike(f, w);
    notice();
    return true;
  }
  return false;
}

/// What the cores have done since.
inline void player::notice() {
  for (wire* w : live()) {
    if (w->writing && !std::exchange(w->is_noticed, true)) handed_out(*w);
    if (std::exchange(w->server->turns_away, false)) lose(*w);
  }
  look();
}

/// There is a connection soon, and it serves.
inline void player::recover() {
  for (wire* w : wires()) w->server->refuses.clear();
  mend();
  const auto settled = [&] {
    const auto all = live();
    return std::all_of(all.begin(), all.end(), [&](const wire* w) {
      return w->closed || (is_settled(*w) && !w->writing && w->server->replies.empty() &&
                           !w->server->hangs_up && !w->is_cut && !w->silent && !w->stuck);
    });
  };
  while (!settled()) go_on();
  const std::size_t before = asked_.size();
  ask_afresh();
  notice();
  while (!all_finished()) go_on();
  for (std::size_t i = before; i < asked_.size(); ++i) {
    BOOST_TEST_REQUIRE(asked_[i]->is_told(asked_[i]->told), asked_[i]->check->ec.message());
  }
  for (const wire* w : live()) {
    if (w->closed) continue;
    BOOST_TEST_REQUIRE(w->is_empty());
    // One new connection for each that was lost, and no other.
    if (opens_due(*w) == 0) continue;
    BOOST_TEST_REQUIRE(static_cast<std::size_t>(w->opens) == opens_due(*w) + w->lost.size());
  }
}

inline bool player::may_be_told(const asked_check& a, error_code e) const {
  if (e == boost::asio::error::operation_aborted) {
    return a.cancelled && (*a.cancelled == detail::cancel_scope::any || a.executed == 0);
  }
  using place = asked_check::place;
  if (e == a.refusal && a.where == place::replied) return true;
  if (e == a.told && !a.was_written) return true;  // refused in the greeting
  for (const planned_fault& f : faults_) {
    if (f.what == kind::said && e == sayings()[f.which].means) return true;
  }
  const bool closed = have({kind::close});
  const bool garbled = have({kind::garbage, kind::garbage_halfway, kind::wrong_reply});
  // Only of what has left whole, and got no reply. A close does not wait to learn what has left.
  if (e == error::outcome_unknown) {
    if (garbled && faults_.size() == 1) return false;
    return a.where == place::server || (closed && a.was_written && a.where != place::replied);
  }
  if (e == error::protocol_error) return garbled && a.where == place::server;
  if (e == error::tls_failed) return have({kind::open_tls_failed, kind::read_tls_failed});
  if (e == error::store_closed) return closed;
  // After a failed attempt, new checks end at once, and others at their deadlines.
  if (e == error::closed_by_peer) {
    return have({kind::open_hung_up, kind::read_fails, kind::write_fails, kind::write_stuck});
  }
  if (e == error::connection_refused) return have({kind::open_fails});
  // An attempt was given up before there was a connection.
  if (e == error::host_unreachable) return have({kind::silence, kind::time_passes});
  if (e == error::not_redis || e == error::not_memcached) return garbled;
  if (e == error::circuit_open) return have({kind::time_passes}) && faults_.size() > 1;
  if (e == error::no_reply) return may_deadlines_come() && a.was_written;
  return e == error::timed_out && (may_deadlines_come() || have({kind::time_passes}));
}

inline void player::judge(const asked_check& a) const {
  const error_code told = a.check->ec;
  BOOST_TEST_REQUIRE(a.check->finished == 1);
  if (have({kind::abandon}) && (a.by == nullptr || a.by->abandoned)) return;
  if (knows_fates()) judge_fate(a);
  if (faults_.empty()) BOOST_TEST_REQUIRE(is_expected(a), "told " << told.message());
  if (told) BOOST_TEST_REQUIRE(may_be_told(a, told), "told " << told.message());
}

}  // namespace weir::test
