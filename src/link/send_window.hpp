#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace weir::detail {

/// How many keys may be under way to the server, and how long answers take, learned from answers.
///
/// Checks that the server cannot answer yet should wait here, where they can still expire unsent:
/// the server must not work for callers that have gone. By Little's law, what is under way is the
/// rate of the answers times the time that each takes. So to make answers take a certain time, the
/// bound is multiplied by that time and divided by the time that they took on average.
///
/// The bound of a new connection is 1, because other processes may meet the same server at that
/// moment. From there it doubles with each round trip, as in TCP's slow start, until an answer
/// takes longer than an idle server needs (as in TCP Vegas). If nothing else is under way, the
/// server waits for this client: then it may be a quarter of the calls' own timeouts. A server that
/// runs for only a part of the time needs that. If answers take far longer, the bound shrinks, once
/// for each round trip. What takes a time in between changes nothing, so the bound comes to rest.
/// While less than half of the bound is in use, nothing changes either: the bound did not make the
/// answers slow.
///
/// If for a second no answer came as from an idle server, the bound is halved, too. If answers then
/// take just as long, the server is not busy: the way to it has become longer.
///
/// Many processes may be too many for one key of each. Then the bound is less than 1, and there are
/// pauses between single keys, so that one is under way for that part of the time (as in Swift,
/// SIGCOMM 2020). They are random, lest processes ask in step.
class send_window {
 public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::microseconds;

  /// `timeout`: the store's. `full_write`: the most keys in one write. `most`: no bound is larger.
  send_window(duration timeout, std::size_t full_write, std::uint32_t seed, double most = HUGE_VAL)
      : longest_timeout_(std::max(timeout, shortest)),
        usual_timeout_(longest_timeout_),
        full_write_(full_write),
        most_(most),
        random_(seed) {}

  /// Called for a new connection, perhaps to another server. `round_trip`: of its greeting; zero:
  /// unknown. `first`: its first bound.
  void reset(duration round_trip = {}, std::size_t first = 1) {
    bound_ = static_cast<double>(first);
    due_ = 0;
    round_trip_ = std::min(round_trip, usual_timeout_);
    slowest_ = {};
    cut_at_ = full_at_ = fast_at_ = idle_since_ = opens_at_ = {};
    in_round_ = time_in_round_ = 0;
    cut_for_ = {};
    same_ = 0;
    was_fast_ = false;
    is_open_ = true;
    wakeup_ = time::max();
  }

  bool is_idle() const noexcept { return due_ == 0; }

  /// Notes a call, which may take `timeout`.
  void sent(std::size_t keys, duration timeout, time now) noexcept {
    usual_timeout_ += (std::clamp(timeout, shortest, longest_timeout_) - usual_timeout_) / 8;
    // Time without anything under way says nothing.
    if (due_ == 0) fast_at_ += now - idle_since_;
    due_ += keys;
    if (2 * due_ >= size()) full_at_ = now;
  }

  /// Notes the answer to a call. `ran`: false for an error reply. `others_wait`: there are checks
  /// that were not sent.
  void answered(std::size_t keys, time sent, bool ran, bool others_wait, time now) {
    const auto took = std::max(duration{1}, std::chrono::duration_cast<duration>(now - sent));
    slowest_ = std::max(took, slowest_ - (slowest_ - took) / 64);
    if (round_trip_ == duration{0} || took < round_trip_) {
      round_trip_ = std::min(took, usual_timeout_);
    }
    due_ -= keys;
    if (due_ == 0) idle_since_ = now;
    const duration idle = idle_answer();
    if (took <= idle) {
      fast_at_ = now;
      was_fast_ = true;
    }
    if (full_at_ < sent) return;
    const duration good = std::max(idle, usual_timeout_ / 4);
    const duration enough = due_ == 0 ? good : idle;
    if (took <= enough) grow(keys, took, enough, took <= idle, ran);
    if (sent >= cut_at_) {
      duration most = std::max(idle, usual_timeout_ * 2 / 5);
      // The only caller gets its answers.
      if (size() == 1 && !others_wait) most = std::max(most, usual_timeout_ * 2 / 3);
      judge(keys, took, good, most, now);
    }
    if (due_ == 0 && bound_ < 1 && pauses_) pause(took, sent, now);
  }

  std::size_t size() const noexcept {
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(bound_)));
  }

  /// How many keys the next write may take; 0 if it has to wait for replies, or for opens_at(). It
  /// does not follow each reply: small writes beget small replies (TCP's "silly window").
  std::size_t room(time now) const noexcept {
    const std::size_t most = size();
    if (due_ == 0) return now < opens_at_ ? 0 : most;
    const std::size_t least = std::clamp<std::size_t>(most / 4, 1, full_write_);
    return most >= due_ + least ? most - due_ : 0;
  }
  /// False if all waiting checks have to wait for a reply, or for the end of a pause.
  bool is_open() const noexcept { return is_open_; }
  void open() noexcept { is_open_ = true; }
  /// When to call note_pause(); time::max(): after the next reply.
  time wakeup() const noexcept { return wakeup_; }
  /// Called after a reply, or at wakeup(): a pause between single keys holds the checks back.
  void note_pause(time now) noexcept {
    is_open_ = now >= opens_at_;
    wakeup_ = is_open_ ? time::max() : opens_at_;
  }
  /// Called after a write. `has_room`: another one could follow.
  void note_write(bool has_room, time now) noexcept {
    is_open_ = has_room;
    if (is_idle()) note_pause(now);  // no reply would
  }
  /// From now on, there are no pauses: what a closing store gives back must not wait.
  void stop_pausing() noexcept {
    pauses_ = false;
    opens_at_ = {};
    is_open_ = true;
    wakeup_ = time::max();
  }

  /// How long an answer probably takes when so many keys are pending. Zero: unknown.
  duration expected(std::size_t pending) const noexcept {
    // With less than the window pending, it is not as long.
    const double part = std::min(1.0, static_cast<double>(pending) / static_cast<double>(size()));
    // The queue at the server may get longer. After a stall, the slowest answer says too much:
    // calls with three quarters of the usual timeout left are sent all the same.
    const duration whole = std::min(slowest_ + (slowest_ - round_trip_) / 2,
                                    usual_timeout_ * 3 / 4);
    return duration(static_cast<duration::rep>(static_cast<double>(whole.count()) * part));
  }
  /// The longest time in which the idle server answers.
  duration idle_answer() const noexcept {
    return round_trip_ + round_trip_ / 4 + std::min(pause_of_server, usual_timeout_ / 4);
  }

 private:
  static constexpr duration shortest{1000}, pause_of_server{10'000}, longest_pause{2'000'000};
  static constexpr std::chrono::seconds a_while{1};
  static constexpr double smallest_bound = 1.0 / 64;

  /// After an answer that took at most `target`. `fast`: as from an idle server. Errors cost the
  /// server little, so they do not tell how much it can run; and a server that becomes slow has to
  /// work through all that is under way. So only fast answers make the bound grow without end.
  void grow(std::size_t keys, duration took, duration target, bool fast, bool ran) noexcept {
    const double too_fast = static_cast<double>(target.count()) / static_cast<double>(took.count());
    const double gain = fast && cut_at_ == time{} ? 1 : std::min(1.0, too_fast - 1);
    const double of = fast ? std::min(bound_, static_cast<double>(keys)) : bound_;
    const double most = fast && ran ? most_ : std::min(most_, 8 * static_cast<double>(full_write_));
    bound_ = std::max(bound_, std::min(bound_ + gain * of, most));
  }

  /// If half a round trip's answers took more than `most` on average, shrinks the bound, so that
  /// they will take `good`.
  void judge(std::size_t keys, duration took, duration good, duration most, time now) noexcept {
    in_round_ += static_cast<double>(keys);
    time_in_round_ += static_cast<double>(keys) * static_cast<double>(took.count());
    if (due_ > 0 && 2 * in_round_ < bound_) return;
    const double mean = time_in_round_ / in_round_;
    in_round_ = time_in_round_ = 0;
    if (is_the_way(duration(static_cast<duration::rep>(mean)))) return;
    const bool never_fast = bound_ > 1 && now - fast_at_ > a_while;
    cut_for_ = {};
    if (mean <= static_cast<double>(most.count()) && !never_fast) return;
    fast_at_ = now;
    const double part = static_cast<double>(good.count()) / mean;
    // A server that was fast has stood still for once: that is no reason for pauses.
    const double least = was_fast_ ? 1.0 : smallest_bound;
    bound_ = never_fast ? std::max(1.0, std::min(0.5, part) * bound_)
                        : std::max(least, part * bound_);
    was_fast_ = false;
    cut_at_ = now;
    cut_for_ = duration(static_cast<duration::rep>(mean));
  }

  /// True if answers take as long as before the bound shrank: the way has become longer, and the
  /// bound grows anew. A way that takes a large part of the timeouts must show twice, with
  /// long pauses between keys, because the queue of other processes at a busy server looks alike.
  bool is_the_way(duration mean) noexcept {
    const bool same = std::chrono::abs(mean - cut_for_) < cut_for_ / 16;
    same_ = same ? same_ + 1 : 0;
    const bool sure = same_ > 1 && bound_ <= 0.25;
    const duration way = std::min(mean, sure ? usual_timeout_ * 3 / 5 : usual_timeout_ / 5);
    if (!same || way <= round_trip_) return false;
    round_trip_ = way;
    bound_ = std::max(1.0, bound_);
    cut_at_ = {};
    cut_for_ = {};
    same_ = 0;
    return true;
  }

  /// A pause such that a key is under way for the part `bound_` of the time.
  void pause(duration took, time sent, time now) {
    const double part = std::uniform_real_distribution<double>(0.5, 1.5)(random_);
    const duration apart(
        static_cast<duration::rep>(static_cast<double>(took.count()) / bound_ * part));
    opens_at_ = std::min(sent + apart, now + longest_pause);
  }

  duration longest_timeout_;
  duration usual_timeout_;  // of the calls that were sent lately
  std::size_t full_write_;
  double most_;
  std::minstd_rand random_;
  double bound_ = 1;
  std::size_t due_ = 0;
  duration round_trip_{0};  // of the idle server; zero: not known yet
  duration slowest_{0};     // what the slowest of the last answers took
  time cut_at_{};           // when the bound shrank last
  time full_at_{};          // when half of the bound was in use last
  time fast_at_{};          // when an answer came last as from an idle server
  bool was_fast_ = false;   // an answer came so since the bound shrank last
  time idle_since_{};
  bool pauses_ = true;
  time opens_at_{};  // the end of a pause; in the past: there is none
  bool is_open_ = true;
  time wakeup_ = time::max();
  // judge() takes the mean of several answers. So far, they had so many keys, which took so many
  // microseconds in all.
  double in_round_ = 0, time_in_round_ = 0;
  duration cut_for_{0};  // why the bound has just shrunk: their mean
  int same_ = 0;         // so many times in a row, they took as long as before it shrank
};

}  // namespace weir::detail
