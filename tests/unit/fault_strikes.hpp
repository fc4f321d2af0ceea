#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fault_player.hpp"

/// Where each fault can strike, and how it does.
namespace weir::test {

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

inline void player::strike(const planned_fault& f, wire& w) {
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
  // Connections may be given up meanwhile.
  const auto pass = [&](auto&& time) {
    std::map<wire*, int> before;
    for (wire* each : live()) before[each] = each->closes;
    time();
    for (const auto& [each, closes] : before) {
      if (each->closes > closes) lose(*each);
    }
  };
  const auto cancel_some = [&] {
    const auto scope = f.what == kind::cancel_unsent ? detail::cancel_scope::only_unsent
                                                     : detail::cancel_scope::any;
    for (asked_check* a : std::vector(asked_)) {
      if (a->finished()) continue;
      const bool waits = a->check->stage == detail::check_stage::waiting;
      a->cancelled = scope;
      cancel(*a, scope);
      BOOST_TEST_REQUIRE(a->finished() == (waits || scope == detail::cancel_scope::any));
      if (f.what == kind::cancel_one) break;
    }
  };
  const std::string garbage = "HTTP/1.1 400 Bad Request\r\n\r\n";
  // Behind half a reply, what comes must not complete it: the rest of a text may be any bytes.
  const std::string not_the_rest = "\n" + std::string(2000, '?') + "\r\n";
  const std::string end = w.is_cut ? not_the_rest : "";
  switch (f.what) {
    case kind::open_fails:
    case kind::open_hung_up:
    case kind::open_tls_failed:
      lose(w);
      return w.opened(f.what == kind::open_fails     ? error::connection_refused
                      : f.what == kind::open_hung_up ? error::closed_by_peer
                                                     : error::tls_failed);
    case kind::read_fails:
    case kind::read_tls_failed:
      lose(w);
      return w.hang_up(f.what == kind::read_fails ? error::outcome_unknown : error::tls_failed);
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
    case kind::time_passes:
      return pass([&] { wait(); });
    case kind::said:
      return say(sayings()[f.which], w);
    case kind::of_protocol:
      return strike_own(f.which, w);
    case kind::deadline:
      pass([&] {
        for (int i = 0; i < 2; ++i) pass_deadlines();  // the timer comes late, and puts them off
        for (wire* each : live()) each->pump();
      });
      BOOST_TEST_REQUIRE(all_finished());
      return;
    case kind::cancel_one:
    case kind::cancel_all:
    case kind::cancel_unsent:
      return cancel_some();
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

inline void player::handed_out(wire& w) {
  const std::string_view bytes = *w.writing;
  for (const planned_fault& f : faults_) {
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

}  // namespace weir::test
