#pragma once

#include "base/lateness.hpp"
#include "line_options.hpp"
#include "redis/pipeline.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

/// One server that executes keys one after the other, a pipeline in front of it, and time that the
/// test makes up. As Redis does, the server takes in at most 16 KB of what has come, executes that,
/// and sends all replies to it together. It may run for a part of the time only, as a process that
/// gets 1 % of its time does.
class slow_server_stage {
 public:
  using time = pipeline::time;
  using duration = std::chrono::nanoseconds;

  struct speed {
    duration per_key = std::chrono::microseconds{10};
    duration runs = duration::zero();  // of each period, this part; zero: always
    duration period = duration::zero();
    unsigned skips = 0;  // of a hundred periods, it does not run in so many
  };

  struct tally {
    std::size_t asked = 0;
    std::size_t executed = 0;  // by the server, dead calls included
    std::size_t in_time = 0;   // answers to callers
    std::size_t unsent = 0;    // timed_out
    std::size_t refused = 0;   // circuit_open, overloaded
  };

  slow_server_stage(const line_options& o, duration round_trip)
      : line_(o), trip_(round_trip / 2), core_(weir::test::make_core("r", policy())) {
    line_.connected(script_set().set(),
                    std::chrono::duration_cast<std::chrono::microseconds>(round_trip));
  }
  ~slow_server_stage() {
    auto left = line_.abandon();
    take(left);
  }

  speed server{};
  duration busy = duration::zero();  // the process's loop comes round only so often
  tally counts{};
  std::function<void()> on_done = [] {};  // a caller heard something

  time now() const { return now_; }
  const pipeline& line() const { return line_; }

  void ask(std::chrono::microseconds timeout = {}) {
    auto& c = *new weir::test::fake_check(core_, "s" + std::to_string(next_subject_++), 1,
                                          detail::check_kind::record, timeout);
    ++counts.asked;
    line_.submit(c, now_);
  }

  /// From now on nothing comes back for so long; then it goes on where it was.
  void stall(duration length) {
    free_at_ = std::max(free_at_, now_) + length;
    for (batch& b : replies_) b.at += length;
  }

  /// From now on the way to the server and back takes so long.
  void round_trip(duration length) { trip_ = length / 2; }

  /// Runs until `end`. `arrive` is called at the times it returns, first now; time::max() ends it.
  void run(time end, const std::function<time()>& arrive) {
    time next_arrival = arrive();
    pump();
    while (true) {
      const time reply = replies_.empty() ? time::max() : replies_.front().at;
      const time next = std::min({next_arrival, reply, starts_at(), line_.wakeup(), end});
      if (next >= end) {
        now_ = end;
        return;
      }
      now_ = std::max(now_, next);
      if (busy > duration::zero()) {
        now_ = std::max(now_, looked_at_ + busy);
        looked_at_ = now_;
      }
      if (now_ >= next_arrival) next_arrival = arrive();
      if (now_ >= line_.wakeup()) line_.expire(now_, detail::lateness(line_.wakeup(), now_));
      while (starts_at() <= now_) execute();
      while (!replies_.empty() && replies_.front().at <= now_) {
        for (const std::size_t keys : replies_.front().keys) add_reply(keys);
        replies_.pop_front();
        BOOST_TEST_REQUIRE((line_.consume(reader_, now_) == pipeline::stream_state::good));
      }
      pump();
    }
  }

 private:
  struct command {
    time arrived;
    std::size_t keys;
    std::size_t bytes;
  };
  struct batch {
    time at;
    std::vector<std::size_t> keys;  // of each reply
  };

  static weir::policy policy() {
    return fixed_window{.limit = 3, .window = std::chrono::seconds{10}};
  }

  void pump() {
    auto done = line_.take_done();
    while (!done.empty()) {
      take(done);
      done = line_.take_done();
    }
    while (line_.wants_write()) {
      const std::string& out = line_.next_write(now_);
      if (out.empty()) break;
      commands_.feed(out);
      const time arrival = now_ + std::chrono::duration_cast<time::duration>(trip_);
      while (const auto words = commands_.next()) {
        std::size_t bytes = 0;
        for (const std::string& word : *words) bytes += word.size() + 6;
        arrived_.push_back({arrival, std::stoul(words->at(2)), bytes});
      }
      line_.write_done();
    }
  }

  /// When the server takes in what has come next.
  time starts_at() {
    if (arrived_.empty()) return time::max();
    return finished(std::max(free_at_, arrived_.front().arrived), 0);
  }

  void execute() {
    constexpr std::size_t most = 16 * 1024;
    const time start = starts_at();
    batch b;
    std::size_t keys = 0, bytes = 0;
    while (!arrived_.empty() && arrived_.front().arrived <= start && bytes < most) {
      keys += arrived_.front().keys;
      bytes += arrived_.front().bytes;
      b.keys.push_back(arrived_.front().keys);
      arrived_.pop_front();
    }
    counts.executed += keys;
    free_at_ = finished(start, keys);
    b.at = free_at_ + trip_;
    replies_.push_back(std::move(b));
  }

  /// When the server has executed so many, which it begins at `from`.
  time finished(time from, std::size_t keys) const {
    duration work = server.per_key * static_cast<std::int64_t>(keys);
    if (server.runs == duration::zero()) return from + work;
    while (true) {
      const duration phase = from.time_since_epoch() % server.period;
      if (phase < server.runs && runs_in(from.time_since_epoch() / server.period)) {
        const duration left = server.runs - phase;
        if (work <= left) return from + work;
        work -= left;
      }
      from += server.period - phase;
    }
  }

  /// The same periods in each run of the test, without a pattern.
  bool runs_in(std::int64_t period) const {
    return static_cast<std::uint64_t>(period) * 0x9e3779b97f4a7c15u % 100 >= server.skips;
  }

  void add_reply(std::size_t keys) {
    const std::string reply = window_reply(std::vector<found_window>(keys));
    const auto room = reader_.prepare(reply.size());
    std::copy(reply.begin(), reply.end(), room.begin());
    reader_.commit(reply.size());
  }

  void take(detail::check_list& done) {
    while (!done.empty()) {
      auto& c = weir::test::fake_check::of(done.front());
      done.pop_front();
      counts.in_time += c.ec ? 0 : 1;
      counts.unsent += c.ec == error::timed_out ? 1 : 0;
      counts.refused += c.ec == error::circuit_open || c.ec == error::overloaded ? 1 : 0;
      delete &c;
      on_done();
    }
  }

  pipeline line_;
  duration trip_;
  weir::test::core_ptr core_;
  time now_{std::chrono::hours{1000}};
  time looked_at_ = time::min();  // the last round of a busy loop
  time free_at_{};
  std::deque<command> arrived_;  // at the server, or on the way there
  std::deque<batch> replies_;
  weir::test::command_reader commands_;
  reply_reader reader_;
  std::size_t next_subject_ = 0;
};

}  // namespace weir::redis::test
