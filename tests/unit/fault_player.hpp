#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fault_kinds.hpp"
#include "support/sanitized.hpp"

namespace weir::test {

/// Plays a scenario, strikes with faults in between, and judges what callers were told, in the
/// manner of Boost.MySQL's tests of its network algorithms. A protocol brings its connections and
/// their servers, its checks, and what is special about it.
class player {
 public:
  player(std::vector<questions> scenario, manner m, std::vector<fault> faults)
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
  std::vector<fault> possible;
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
    const auto next = std::min_element(all.begin(), all.end(), [](wire* a, wire* b) {
      return a->wakeup() < b->wakeup();
    });
    (*next)->wait();
  }
  virtual bool may_say(std::size_t, const wire& w) const {
    return w.is_up() && w.reading && !all_finished();
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
  virtual void judge(const asked_check& a) const;
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
    return std::any_of(faults_.begin(), faults_.end(), [&](const fault& f) {
      return std::find(some.begin(), some.end(), f.what) != some.end();
    });
  }
  bool has_struck() const { return struck_ > 0; }
  static void lose(wire& w) { w.lost.insert(w.opens); }
  void go_on();

  const manner how;
  const std::vector<fault> faults_;
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
  bool strikes_here();
  void explore(const wire& w);
  void strike(const fault& f, wire& w);
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
  for (const fault& f : faults_) {
    if (is_of_write(f.what) || f.at != number) continue;
    ++struck_;
    strike(f, w);
    notice();
    return true;
  }
  return false;
}

inline void player::explore(const wire& w) {
  const auto add = [&](bool may, std::initializer_list<kind> some) {
    for (const kind k : some) {
      if (may) possible.push_back({k, steps - 1});
    }
  };
  const bool opens = w.opening && !w.coming_back && !w.silent;
  const bool reads = w.is_up() && w.reading;
  const bool has_reply = reads && !w.server->replies.empty() && !w.is_cut;
  const bool asked = !all_finished();
  add(opens, {kind::open_fails, kind::open_hung_up, kind::open_tls_failed});
  add(reads, {kind::read_fails, kind::garbage});
  add(reads && w.is_greeting(), {kind::read_tls_failed});
  add(has_reply, {kind::read_fails_halfway, kind::garbage_halfway});
  add(has_reply && w.server->replies.front().of_call, {kind::wrong_reply});
  add(w.is_up() || opens, {kind::silence});
  add(!w.coming_back && w.wakeup() != moment::max(), {kind::time_passes});
  add(asked, {kind::cancel_one, kind::cancel_all, kind::cancel_unsent});
  add(asked && may_deadlines_come(), {kind::deadline});
  add(!w.closed, {kind::close});
  add(may_abandon(), {kind::abandon});
  for (std::size_t i = 0; i < sayings().size(); ++i) {
    if (may_say(i, w)) possible.push_back({kind::said, steps - 1, i});
  }
  for (std::size_t i = 0; i < own_faults(); ++i) {
    if (is_possible(i, w)) possible.push_back({kind::of_protocol, steps - 1, i});
  }
}

inline void player::strike(const fault& f, wire& w) {
  const auto only = [&](const std::string& bytes) {
    lose(w);
    const int before = w.closes;
    w.say_last(bytes);
    BOOST_TEST_REQUIRE(w.closes == before + 1);  // not only once it is silent for long
  };
  const auto half_a_reply = [&] {
    const std::string& reply = w.server->replies.front().bytes;
    return reply.substr(0, reply.size() / 2);
  };
  const auto fail = [&](bool opens, error e) {
    lose(w);
    opens ? w.opened(e) : w.hang_up(e);
  };
  const auto cancel_some = [&](detail::cancel_scope scope, bool all) {
    for (asked_check* a : std::vector(asked_)) {
      if (a->finished()) continue;
      const bool waits = a->check->stage == detail::check_stage::waiting;
      a->cancelled = scope;
      cancel(*a, scope);
      BOOST_TEST_REQUIRE(a->finished() == (waits || scope == detail::cancel_scope::any));
      if (!all) break;
    }
  };
  const std::string garbage = "HTTP/1.1 400 Bad Request\r\n\r\n";
  // Behind half a reply, what comes must not complete it: the rest of a text may be any bytes.
  const std::string not_the_rest = "\n" + std::string(2000, '?') + "\r\n";
  const std::string end = w.is_cut ? not_the_rest : "";
  switch (f.what) {
    case kind::open_fails:
      return fail(true, error::connection_refused);
    case kind::open_hung_up:
      return fail(true, error::closed_by_peer);
    case kind::open_tls_failed:
      return fail(true, error::tls_failed);
    case kind::read_fails:
      return fail(false, error::outcome_unknown);
    case kind::read_tls_failed:
      return fail(false, error::tls_failed);
    case kind::read_fails_halfway:
      lose(w);
      w.is_cut = true;
      return w.received(half_a_reply());
    case kind::garbage:
      return only(end + garbage);
    case kind::garbage_halfway:
      return only(half_a_reply() + not_the_rest + garbage);
    case kind::wrong_reply:
      return only(end + std::string(wrong_reply()));
    case kind::silence:
      lose(w);
      w.silent = true;
      return;
    case kind::time_passes: {
      std::map<wire*, int> before;
      for (wire* each : live()) before[each] = each->closes;
      wait();
      for (const auto& [each, closes] : before) {
        if (each->closes > closes) lose(*each);
      }
      return;
    }
    case kind::said:
      return say(sayings()[f.which], w);
    case kind::of_protocol:
      return strike_own(f.which, w);
    case kind::deadline:
      for (int i = 0; i < 2; ++i) pass_deadlines();  // the timer comes late, and puts them off
      for (wire* each : live()) each->pump();
      BOOST_TEST_REQUIRE(all_finished());
      return;
    case kind::cancel_one:
      return cancel_some(detail::cancel_scope::any, false);
    case kind::cancel_all:
      return cancel_some(detail::cancel_scope::any, true);
    case kind::cancel_unsent:
      return cancel_some(detail::cancel_scope::only_unsent, true);
    case kind::close:
      return close(w);
    case kind::abandon:
      return abandon(w);
    case kind::write_fails:
    case kind::write_stuck:
    case kind::count:
      return;
  }
}

/// What the cores have done since.
inline void player::notice() {
  for (wire* w : live()) {
    if (w->writing && !std::exchange(w->is_noticed, true)) handed_out(*w);
    if (std::exchange(w->server->turns_away, false)) lose(*w);
  }
  look();
}

inline void player::handed_out(wire& w) {
  const std::string_view bytes = *w.writing;
  for (const fault& f : faults_) {
    if (!is_of_write(f.what) || f.at != writes_) continue;
    ++struck_;
    lose(w);
    w.through = f.which;
    w.after_that = f.what == kind::write_fails ? write_fate::fails : write_fate::sticks;
  }
  if (explores && struck_ == faults_.size()) {
    // Both ends, the middle, and around the end of each call.
    std::set<std::size_t> cuts{0, bytes.size() / 2, bytes.size() - 1, bytes.size()};
    for (auto at = bytes.find(next_call()); !w.is_greeting() && at != bytes.npos;
         at = bytes.find(next_call(), at + 1)) {
      cuts.insert({at + 1, at + 2});
    }
    for (const std::size_t n : cuts) {
      for (const kind k : {kind::write_fails, kind::write_stuck}) {
        possible.push_back({k, writes_, n});
      }
    }
  }
  ++writes_;
  const bool has_checks = carries(w);
  if (how.eager) w.server_reads(std::min(w.through, bytes.size()));
  if (has_checks) ask_group(when::during_write);
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
  for (const fault& f : faults_) {
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
  BOOST_TEST_REQUIRE(a.executed <= 1);
  if (have({kind::abandon}) && (a.by == nullptr || a.by->abandoned)) return;
  if (faults_.empty()) BOOST_TEST_REQUIRE(is_expected(a), "told " << told.message());
  if (told) {
    if (told == condition::not_counted) BOOST_TEST_REQUIRE(a.executed == 0);
    BOOST_TEST_REQUIRE(may_be_told(a, told), "told " << told.message());
    return;
  }
  BOOST_TEST_REQUIRE(a.executed == 1);
  if (a.check->kind == detail::check_kind::reset) return;
  const decision& answer = a.check->answer;
  BOOST_TEST_REQUIRE(answer.allowed == a.right.allowed);
  BOOST_TEST_REQUIRE(answer.used == a.right.used);
  BOOST_TEST_REQUIRE(answer.limit == a.right.limit);
  BOOST_TEST_REQUIRE(static_cast<int>(answer.tier) == a.right.tier);
}

// ---- the plays

struct tally {
  std::size_t runs = 0, steps = 0;
  std::array<std::size_t, fault_kinds> struck{};

  ~tally() {
    BOOST_TEST_MESSAGE(runs << " runs, " << steps << " steps");
    for (std::size_t k = 0; k < fault_kinds; ++k) {
      BOOST_TEST_MESSAGE(struck[k] << " times: " << name_of(static_cast<fault_kind>(k)));
    }
  }
  /// Plays make(faults), and returns what else could have gone wrong after these.
  template <class Make>
  std::vector<fault> play(std::string_view name, manner m, const std::vector<fault>& faults,
                          bool explores, Make&& make) {
    BOOST_TEST_CONTEXT(name << ", " << text_of(m, faults)) {
      const auto p = make(faults);
      p->explores = explores;
      p->run();
      ++runs;
      steps += p->steps;
      for (const fault& f : faults) ++struck[static_cast<std::size_t>(f.what)];
      return std::move(p->possible);
    }
    return {};
  }
  /// Without a fault, then with each fault at each step.
  template <class Make>
  void play_all(std::string_view name, manner m, Make&& make, std::size_t one_of = 1) {
    std::size_t number = 0;
    for (const fault& f : play(name, m, {}, true, make)) {
      if (number++ % one_of == 0) play(name, m, {f}, false, make);
    }
  }
};

inline std::vector<manner> manners() {
  std::vector<manner> all;
  for (const bool eager : {false, true}) {
    for (const bool whole : {false, true}) {
      for (const bool late : {false, true}) all.push_back({eager, whole, late, false});
      all.push_back({eager, whole, whole, true});
    }
  }
  return all;
}

}  // namespace weir::test
