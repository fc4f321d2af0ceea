#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_redis.hpp"
#include "session_driver.hpp"
#include "session_faults.hpp"
#include "session_judge.hpp"
#include "session_scenarios.hpp"

namespace weir::redis::test {

/// A session core between the callers of a scenario and a server. Whatever is under way comes to an
/// end one at a time, when perform() says so. Faults of writes are its own, as what the server
/// reads depends on them.
class stage : public driver {
 protected:
  stage(const scenario& s, manner m, std::vector<fault> faults)
      : driver(s.options), scenario_(s), manner_(m), faults_(std::move(faults)) {
    settles_at_once = false;
    if (!options.username.empty()) server_.username = options.username;
    server_.password = options.password;
    server_.database = options.database;
    s.server(server_);
    ask(when::at_first);
  }

  ~stage() = default;

  // ---- the callers

  void ask(when w) {
    if (next_questions_ == scenario_.asked.size()) return;
    const questions& group = scenario_.asked[next_questions_];
    if (group.asked != w && w != when::in_quiet) return;
    ++next_questions_;
    for (const question& q : group.all) ask(q);
  }
  fake_check& ask(const question& q) {
    static const fixed_window three{.limit = 3, .window = 10s}, two{.limit = 2, .window = 20s};
    static const limiter_options group{.group = "g"};
    static const auto one = weir::test::make_core("one", three);
    static const auto both = weir::test::make_core("both", tiers(three, two));
    static const auto first = weir::test::make_core("first", tiers(three, three), group);
    static const auto second = weir::test::make_core("second", two, group);
    std::vector<detail::term> further;
    if (q.of == asks::several) further.push_back({second, detail::short_text(q.subject), 1});
    fake_check& c = checks.emplace_back(
        q.of == asks::one     ? one
        : q.of == asks::tiers ? both
                              : first,
        q.subject, q.cost, q.kind, manner_.hasty ? std::chrono::microseconds(near_deadline) : 1h,
        std::move(further));
    asked_.push_back({&q, &c, {}, {}});
    start(c);
    notice();
    return c;
  }
  bool all_finished() const {
    return std::all_of(asked_.begin(), asked_.end(), [](const auto& a) { return a.finished(); });
  }

  bool can_read() const {
    return reading && (!server_.replies.empty() || server_.hangs_up || cut_);
  }

  step next_step() const {
    if (coming_back_) return step::come_back;
    if (silent_) return step::wait;
    if (opening) return step::open;
    if (writing && !stuck_ && !(manner_.eager && can_read())) return step::write;
    return can_read() ? step::read : step::wait;
  }

  situation look() const {
    const bool up = opens > 0 && !opening && (reading || writing) && !coming_back_ && !silent_;
    return {
        .next = next_step(),
        .reading = reading,
        .connected = up,
        .greeting = core.current() == state::greeting,
        .reply = !server_.replies.empty() && !cut_,
        .reply_to_script = !server_.replies.empty() && !cut_ && server_.replies.front().of_script,
        .alive = up || (opening && !coming_back_ && !silent_),
        .asked = !all_finished()};
  }

  void perform(step s) {
    switch (s) {
      case step::open:
        server_.accept();
        opened(error{});
        break;
      case step::write:
        write();
        break;
      case step::read:
        read();
        break;
      case step::come_back:
        come_back();
        break;
      case step::wait:
        rested_ = rested_ || core.current() == state::pausing;
        wait();
        break;
    }
    notice();
  }

  void write() {
    server_reads(through_);
    if (through_fault_ == kind::write_stuck) {
      stuck_ = true;
      return;
    }
    finish_write(through_fault_ != kind::write_fails, through_);
  }

  void read() {
    std::string bytes;
    while (!cut_ && !server_.replies.empty() && (bytes.empty() || manner_.whole)) {
      for (fate* f : server_.replies.front().whose) f->where = fate::place::replied;
      bytes += server_.replies.front().bytes;
      server_.replies.pop_front();
    }
    bytes.empty() ? received_nothing() : received(bytes);
  }

  /// One of the things that were under way when the core closed the connection.
  void come_back() {
    if (opening) return opened(manner_.late ? error{} : error::host_unreachable);
    if (reading && (manner_.eager || !writing)) {
      if (!manner_.late || server_.replies.empty()) return received_nothing();
      return received(server_.replies.front().bytes);
    }
    if (manner_.late) {
      server_reads(writing->size());
    } else if (!stuck_ && !silent_ && !manner_.eager) {
      server_reads(through_ / 2);
    }
    finish_write(manner_.late, read_by_server_);
  }

  void finish_write(bool ok, std::size_t bytes) {
    for (asked_check& a : asked_) {
      // Not all of it has left: the server will not know of it.
      if (a.real.where == fate::place::write && !a.finished()) a.real.where = fate::place::client;
    }
    write_noticed_ = false;
    written(ok, bytes);
  }

  void server_reads(std::size_t up_to) {
    if (up_to <= read_by_server_) return;
    server_.read(writing->substr(read_by_server_, up_to - read_by_server_));
    read_by_server_ = up_to;
  }

  // ---- what the core has done since

  void notice() {
    if (writing && !write_noticed_) handed_out();
    if (server_.turns_away) lose();
    server_.turns_away = false;
    if (closes != closes_noticed_) {
      closes_noticed_ = closes;
      coming_back_ = true;
    }
    if (coming_back_ && !opening && !reading && !writing) coming_back_ = silent_ = stuck_ = false;
    if (!opening && !reading && !writing) {
      server_.replies.clear();
      server_.hangs_up = cut_ = false;
    }
    if (opens != opens_noticed_) {
      // A pause lies between.
      BOOST_TEST_REQUIRE((opens == 1 || rested_));
      opens_noticed_ = opens;
      rested_ = false;
    }
  }

  void handed_out() {
    write_noticed_ = true;
    read_by_server_ = 0;
    through_ = writing->size();
    through_fault_ = kind::count;
    for (const fault& f : faults_) {
      if (!is_of_write(f.what) || f.at != writes_.size()) continue;
      ++struck_;
      struck_at_ = steps_.size();
      lose();
      through_ = f.bytes;
      through_fault_ = f.what;
    }
    writes_.push_back({steps_.size(), {}});
    auto& cuts = writes_.back().cuts;
    cuts = {0, writing->size() / 2, writing->size() - 1, writing->size()};
    if (core.current() == state::ready) {
      for (auto at = writing->find("\r\n*"); at != std::string::npos;
           at = writing->find("\r\n*", at + 1)) {
        cuts.insert({at + 1, at + 2});
      }
    }

    // Checks of one name travel together, unless something else is asked of the same key in
    // between.
    std::map<std::string, std::string> last;
    std::vector<std::pair<std::string, std::vector<fate*>>> calls;
    bool carries = false;
    for (asked_check& a : asked_) {
      const bool left_before = a.real.where == fate::place::write ||
                               a.real.where == fate::place::server;
      if (a.check->stage != detail::check_stage::sent || a.finished() || left_before) continue;
      carries = true;
      a.real.where = fate::place::write;
      a.real.was_written = true;
      const std::string name = name_of(*a.check);
      const std::string key = name.substr(2, name.find_first_of("= ", 2) - 2);
      if (last[key] != name) calls.push_back({name, {}});
      last[key] = name;
      const auto call = std::find_if(calls.rbegin(), calls.rend(),
                                     [&](const auto& c) { return c.first == name; });
      call->second.push_back(&a.real);
    }
    for (auto& [name, travellers] : calls) server_.expect(name, std::move(travellers));
    if (manner_.eager) server_reads(through_);
    if (carries) ask(when::during_write);
  }

  /// This attempt has failed, or will end: a new one has to follow.
  void lose() { lost_.insert(opens); }

  struct write_seen {
    std::size_t begun;           // before this step
    std::set<std::size_t> cuts;  // at both ends, in the middle, around the end of each call
  };

  static constexpr std::chrono::milliseconds near_deadline{150};

  const scenario& scenario_;
  const manner manner_;
  const std::vector<fault> faults_;
  fake_redis server_;
  std::deque<asked_check> asked_;
  std::size_t next_questions_ = 0;

  std::vector<situation> steps_;
  std::vector<write_seen> writes_;
  std::size_t struck_ = 0, struck_at_ = 0;
  std::set<int> lost_;

  // The write under way.
  bool write_noticed_ = false;
  std::size_t through_ = 0;  // how much of it gets through
  kind through_fault_ = kind::count;
  std::size_t read_by_server_ = 0;

  bool silent_ = false;       // nothing comes back any more, until a close
  bool stuck_ = false;        // the write does not
  bool cut_ = false;          // no reply comes any more, but the end
  bool coming_back_ = false;  // after a close
  bool rested_ = false;       // since the last attempt
  int closes_noticed_ = 0;
  int opens_noticed_ = 0;
};

}  // namespace weir::redis::test
