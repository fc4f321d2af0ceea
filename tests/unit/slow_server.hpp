#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include "redis/pipeline.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"

namespace weir::net::test {

/// One server that executes keys one after the other, a pipeline in front of it, and time that the
/// test makes up. The server may run for a part of the time only, as a process that gets 1 % of its
/// time does.
class slow_server_stage {
 public:
  using time = pipeline::time;
  using duration = std::chrono::nanoseconds;

  struct speed {
    duration per_key = std::chrono::microseconds{10};
    duration runs = duration::zero();  // of each period, this part; zero: always
    duration period = duration::zero();
  };

  struct tally {
    std::size_t asked = 0;
    std::size_t executed = 0;  // by the server, dead calls included
    std::size_t in_time = 0;   // answers to callers
    std::size_t unsent = 0;    // timed_out
    std::size_t refused = 0;   // circuit_open, overloaded
  };

  slow_server_stage(pipeline::options o, duration round_trip)
      : line_(o), trip_(round_trip / 2), core_(weir::test::make_core("r", policy())) {
    line_.connected();
  }
  ~slow_server_stage() {
    auto left = line_.abandon();
    take(left);
  }

  speed server{};
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
    for (due& d : replies_) d.at += length;
  }

  /// Runs until `end`. `arrive` is called at the times it returns, first now; time::max() ends it.
  void run(time end, const std::function<time()>& arrive) {
    time next_arrival = arrive();
    pump();
    while (true) {
      const time reply = replies_.empty() ? time::max() : replies_.front().at;
      const time next = std::min({next_arrival, reply, line_.wakeup(), end});
      if (next >= end) {
        now_ = end;
        return;
      }
      now_ = std::max(now_, next);
      if (now_ >= next_arrival) next_arrival = arrive();
      if (now_ >= line_.wakeup()) line_.expire(now_);
      while (!replies_.empty() && replies_.front().at <= now_) {
        answer(replies_.front().keys);
        replies_.pop_front();
      }
      pump();
    }
  }

 private:
  struct due {
    time at;
    std::size_t keys;
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
      while (const auto command = commands_.next()) {
        const auto keys = static_cast<std::size_t>(std::stoul(command->at(2)));
        const time arrived = now_ + std::chrono::duration_cast<time::duration>(trip_);
        free_at_ = finished(std::max(free_at_, arrived), keys);
        counts.executed += keys;
        replies_.push_back({free_at_ + trip_, keys});
      }
      line_.write_done();
    }
  }

  /// When the server has executed so many, which it begins at `from`.
  time finished(time from, std::size_t keys) const {
    duration work = server.per_key * static_cast<std::int64_t>(keys);
    if (server.runs == duration::zero()) return from + work;
    while (true) {
      const duration phase = from.time_since_epoch() % server.period;
      if (phase < server.runs) {
        const duration left = server.runs - phase;
        if (work <= left) return from + work;
        work -= left;
      }
      from += server.period - phase;
    }
  }

  void answer(std::size_t keys) {
    std::string reply = "*" + std::to_string(1 + 3 * keys) + "\r\n:5000000\r\n";
    for (std::size_t i = 0; i < keys; ++i) reply += ":0\r\n:0\r\n:0\r\n";
    const auto room = reader_.prepare(reply.size());
    std::copy(reply.begin(), reply.end(), room.begin());
    reader_.commit(reply.size());
    BOOST_TEST_REQUIRE((line_.consume(reader_, now_) == pipeline::stream_state::good));
  }

  void take(detail::check_list& done) {
    while (!done.empty()) {
      auto& c = static_cast<weir::test::fake_check&>(done.front());
      done.pop_front();
      counts.in_time += c.ec ? 0 : 1;
      counts.unsent += c.ec == error::timed_out ? 1 : 0;
      counts.refused += c.ec == error::circuit_open || c.ec == error::overloaded ? 1 : 0;
      delete &c;
      on_done();
    }
  }

  pipeline line_;
  const duration trip_;
  weir::test::core_ptr core_;
  time now_{std::chrono::hours{1000}};
  time free_at_{};
  std::deque<due> replies_;
  weir::test::command_reader commands_;
  redis::reply_reader reader_;
  std::size_t next_subject_ = 0;
};

}  // namespace weir::net::test
