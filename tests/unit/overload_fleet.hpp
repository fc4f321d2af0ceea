#pragma once

#include <random>

#include "line_options.hpp"
#include "redis/pipeline.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

/// Some processes, each with a pipeline, that ask one server for more than it can do, and time that
/// the test makes up. The server executes the calls of all in the order in which they come.
class overload_fleet {
 public:
  using time = pipeline::time;
  using duration = std::chrono::nanoseconds;
  using timeouts = std::vector<std::chrono::milliseconds>;

  struct scene {
    std::size_t processes = 1;
    double rate = 1000;  // keys a second that the server can do
    timeouts asked = {std::chrono::milliseconds{500}};
    double load = 50;  // how many times that all processes ask for together
    duration round_trip = std::chrono::microseconds{200};
    // The server runs for `runs` of each `period`; zero: always.
    duration runs = duration::zero(), period = duration::zero();
    bool knows_round_trip = true;  // else the greeting was as slow as a call
  };
  struct tally {
    double executed = 0;  // parts of what the server could do
    double in_time = 0;
  };

  overload_fleet(const scene& s, unsigned seed) : scene_(s), random_(seed) {
    for (std::size_t i = 0; i < s.processes; ++i) {
      all_.push_back(std::make_unique<process>(i));
      process& p = *all_.back();
      const double queued = s.knows_round_trip ? 0 : static_cast<double>(s.processes) / s.rate;
      p.line.connected(script_set().set(),
                       std::chrono::duration_cast<std::chrono::microseconds>(
                           s.round_trip + std::chrono::duration<double>(queued)));
      p.next_ask = now_ + gap();
    }
  }
  ~overload_fleet() {
    for (auto& p : all_) {
      auto left = p->line.abandon();
      take(left);
    }
  }

  /// Runs for a while. What the server did in it, and how much of that was answered in time.
  tally run(duration length) {
    const std::size_t executed = executed_, in_time = in_time_;
    const time end = now_ + std::chrono::duration_cast<time::duration>(length);
    while (now_ < end) step(end);
    const double most = scene_.rate * std::chrono::duration<double>(length).count();
    return {static_cast<double>(executed_ - executed) / most,
            static_cast<double>(in_time_ - in_time) / most};
  }
  std::size_t in_time() const { return in_time_; }
  time now() const { return now_; }

 private:
  struct process {
    explicit process(std::size_t i)
        : line(line_options{.max_pending = 1'000'000, .breaker_failures = 20},
               static_cast<std::uint32_t>(i + 1)) {}
    pipeline line;
    reply_reader reader;
    weir::test::command_reader commands;
    time next_ask{};
  };
  struct call {
    process* from;
    std::size_t keys;
    time at;  // the server; then, of its reply
  };

  time::duration gap() {
    const double mean = static_cast<double>(scene_.processes) / (scene_.rate * scene_.load);
    const double seconds = std::exponential_distribution<double>(1 / mean)(random_);
    return std::chrono::duration_cast<time::duration>(std::chrono::duration<double>(seconds));
  }

  void step(time end) {
    time next = std::min(end, replies_.empty() ? time::max() : replies_.front().at);
    for (const auto& p : all_) next = std::min({next, p->next_ask, p->line.wakeup()});
    now_ = std::max(now_, next);
    for (; !replies_.empty() && replies_.front().at <= now_; replies_.pop_front()) {
      process& p = *replies_.front().from;
      const std::string reply = window_reply(std::vector<found_window>(replies_.front().keys));
      const auto room = p.reader.prepare(reply.size());
      std::copy(reply.begin(), reply.end(), room.begin());
      p.reader.commit(reply.size());
      BOOST_TEST_REQUIRE((p.line.consume(p.reader, now_) == pipeline::stream_state::good));
      pump(p);
    }
    for (const auto& p : all_) {
      const bool is_due = p->line.wakeup() <= now_;
      if (!is_due && p->next_ask > now_) continue;
      if (is_due) p->line.expire(now_);
      for (; p->next_ask <= now_; p->next_ask += gap()) ask(*p);
      pump(*p);
    }
  }

  void ask(process& p) {
    auto which = std::uniform_int_distribution<std::size_t>(0, scene_.asked.size() - 1);
    auto& c = *new weir::test::fake_check(core_, "s" + std::to_string(next_subject_++), 1,
                                          detail::check_kind::record, scene_.asked[which(random_)]);
    p.line.submit(c, now_);
  }

  void pump(process& p) {
    for (auto done = p.line.take_done(); !done.empty(); done = p.line.take_done()) take(done);
    while (p.line.wants_write()) {
      const std::string& out = p.line.next_write(now_);
      if (out.empty()) break;
      p.commands.feed(out);
      while (const auto words = p.commands.next()) execute(p, std::stoul(words->at(2)));
      p.line.write_done();
    }
  }

  /// All calls come over equally long ways, so they can be executed when they are sent.
  void execute(process& p, std::size_t keys) {
    executed_ += keys;
    const auto trip = std::chrono::duration_cast<time::duration>(scene_.round_trip / 2);
    const auto work = std::chrono::duration_cast<time::duration>(
        std::chrono::duration<double>(static_cast<double>(keys) / scene_.rate));
    free_at_ = finished(std::max(free_at_, now_ + trip), work);
    replies_.push_back({&p, keys, free_at_ + trip});
  }

  /// When the server has worked for so long from then on. A server that runs for a part of the time
  /// does in it what another does in all.
  time finished(time from, time::duration work) const {
    if (scene_.period == duration::zero()) return from + work;
    work = work * scene_.runs.count() / scene_.period.count();
    while (true) {
      const duration phase = from.time_since_epoch() % scene_.period;
      if (phase < scene_.runs) {
        const duration left = scene_.runs - phase;
        if (work <= left) return from + work;
        work -= left;
      }
      from += scene_.period - phase;
    }
  }

  void take(detail::check_list& done) {
    while (!done.empty()) {
      auto& c = weir::test::fake_check::of(done.front());
      done.pop_front();
      in_time_ += c.ec ? 0 : 1;
      delete &c;
    }
  }

  scene scene_;
  std::mt19937 random_;
  weir::test::core_ptr core_ = weir::test::make_core(
      "r", fixed_window{.limit = 3, .window = std::chrono::seconds{10}});
  std::vector<std::unique_ptr<process>> all_;
  time now_{std::chrono::hours{1000}};
  time free_at_{};
  std::deque<call> replies_;
  std::size_t next_subject_ = 0;
  std::size_t executed_ = 0, in_time_ = 0;
};

}  // namespace weir::redis::test
