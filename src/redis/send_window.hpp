#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace weir::net {

/// How much may be under way to the server, in keys, and how long answers take: both from what came back lately.
///
/// What the server has not begun to answer waits better here, where it can still expire unsent. So
/// under way is half as much again as was answered within a stretch: a round trip of the idle
/// server, and a little more. That keeps a server busy, one that answers in bursts too. The bound
/// grows with each answer, and shrinks only while answers take longer than a stretch (the idea is
/// that of TCP Vegas, Brakmo and Peterson 1995): asking little shrinks nothing.
class send_window {
 public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::microseconds;

  /// `patience`: how long a call may take. `first`: the bound on a new connection.
  send_window(duration patience, std::size_t first)
      : patience_(std::max(patience, duration{1000})), first_(first) {
    reset();
  }

  /// There is a new connection, perhaps to another server.
  void reset() {
    peak_ = static_cast<double>(first_) / gain;
    due_ = in_stretch_ = 0;
    round_trip_ = duration{0};
    is_slow_ = false;
    stretch_start_ = idle_since_ = {};
    fast_since_ = time::max();
    forget_times();
  }

  /// Nothing is under way: what is sent next shows the server's round trip alone.
  bool is_idle() const noexcept { return due_ == 0; }

  void sent(std::size_t keys, time now) noexcept {
    // Time without anything under way says nothing.
    if (due_ == 0) stretch_start_ += std::chrono::duration_cast<time::duration>(now - idle_since_);
    due_ += keys;
  }

  /// `alone`: nothing else was under way when it was sent.
  void answered(std::size_t keys, time sent, bool alone, time now) noexcept {
    const auto took = std::chrono::duration_cast<duration>(now - sent);
    fast_since_ = took > 2 * stretch() ? time::max() : std::min(fast_since_, now);
    // After a stall, its times would let through one call at a time for long. A server that runs for
    // a part of the time only does not answer fast for so long.
    const bool is_over = alone && fast_since_ <= now - patience_ / 2;
    if (is_over && expected(size()) > 2 * stretch()) forget_times();
    note(took);
    if (alone) {
      const duration own = std::min(took, patience_ / 2);
      const bool first = round_trip_ == duration{0};
      round_trip_ = first ? own : std::min(own, (3 * round_trip_ + own) / 4);
    }
    due_ -= keys;
    if (due_ == 0) idle_since_ = now;
    if (took > stretch()) is_slow_ = true;
    if (now - stretch_start_ >= stretch()) end_stretch(now);
    in_stretch_ += keys;
    peak_ = std::max(peak_, static_cast<double>(in_stretch_));
  }

  /// The bound.
  std::size_t size() const noexcept {
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(peak_ * gain)));
  }

  /// How many keys the next write may take; 0 if it has to wait for replies. It does not follow each
  /// reply: small writes beget small replies (TCP's "silly window").
  std::size_t room(std::size_t full_write) const noexcept {
    const std::size_t most = size();
    if (due_ == 0) return most;
    const std::size_t least = std::clamp<std::size_t>(most / 4, 1, full_write);
    return most >= due_ + least ? most - due_ : 0;
  }

  /// How long an answer takes, most likely, when so many keys are pending. Zero: nobody knows.
  duration expected(std::size_t pending) const noexcept {
    if (samples_ < few) return duration{0};
    // The longest tenth is left out: one hiccup must not fail all that waited for its end.
    std::size_t above = std::min(samples_, counts_size) / 10;
    std::size_t i = buckets - 1;
    for (; i > 0; --i) {
      if (counts_[i] > above) break;
      above -= counts_[i];
    }
    // With less than the window pending, it is not as long.
    const double part = std::min(1.0, static_cast<double>(pending) / static_cast<double>(size()));
    return duration(static_cast<duration::rep>(std::exp2((static_cast<double>(i) + 1) / 4) * part));
  }

 private:
  static constexpr double gain = 1.5;
  static constexpr duration pause{10'000};
  static constexpr std::size_t few = 8;
  static constexpr std::size_t counts_size = 256;
  static constexpr std::size_t buckets = 150;  // four for each doubling, up to a day

  /// How long a time is looked at.
  duration stretch() const noexcept {
    return std::min(round_trip_ + round_trip_ / 4 + pause, patience_ / 2);
  }

  void end_stretch(time now) noexcept {
    if (is_slow_) {
      // Halved in a quarter of the patience.
      const double over = std::chrono::duration<double>(now - stretch_start_) /
                          std::chrono::duration<double>(patience_ / 4);
      peak_ *= std::exp2(-over);
    }
    stretch_start_ = now;
    in_stretch_ = 0;
    is_slow_ = false;
  }

  void forget_times() noexcept {
    samples_ = 0;
    counts_.fill(0);
  }

  void note(duration took) noexcept {
    const auto us = static_cast<double>(std::max<duration::rep>(1, took.count()));
    const auto bucket = std::min(buckets - 1, static_cast<std::size_t>(4 * std::log2(us)));
    std::uint8_t& slot = last_[samples_ % counts_size];
    if (samples_ >= counts_size) --counts_[slot];
    slot = static_cast<std::uint8_t>(bucket);
    ++counts_[bucket];
    ++samples_;
  }

  duration patience_;
  std::size_t first_;
  double peak_ = 0;  // answered within a stretch lately, at the most
  std::size_t due_ = 0;
  duration round_trip_{0};  // zero: not known yet
  time stretch_start_{};
  time idle_since_{};
  std::size_t in_stretch_ = 0;
  bool is_slow_ = false;           // something took longer than the stretch
  time fast_since_ = time::max();  // nothing has taken twice as long since

  std::size_t samples_ = 0;
  std::array<std::uint8_t, counts_size> last_;  // the buckets of the last answers
  std::array<std::uint16_t, buckets> counts_;
};

}  // namespace weir::net
