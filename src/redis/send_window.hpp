#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weir::redis {

/// How many keys may be under way to the server, and how long answers take, learned from recent
/// answers.
///
/// Checks that the server cannot answer yet should wait here, where they can still expire unsent.
/// So the bound is 1.5 times what was answered within a stretch: a round trip of the idle server,
/// and a little more. That keeps the server busy, also one that answers in bursts.
///
/// The bound grows with answers that come as soon as from an idle server; with error replies, only
/// up to a small bound, because they do not tell how much the server can run. It also grows a
/// little, up to that small bound, if the last answer that was due took less than a quarter of the
/// timeout: the server then has nothing to do and waits for the client. This helps a server that
/// runs for only a part of the time, whose answers are mostly slow, however little is under way.
/// The small bound is there because a server that becomes slow has to work through all that is
/// under way.
///
/// Answers that take still longer shrink the bound in proportion, once for each round trip, as TCP
/// does: answers to calls that were sent before it shrank do not shrink it again. While less than
/// half of the bound is in use, slow answers do not shrink it, because the bound did not make them
/// slow.
///
/// If for a second no answer came that soon, either the server is busy or the network has become
/// slower. Answers to calls that wait behind others do not tell which. So only urgent calls are
/// sent until all that is under way is answered, and the next call measures the round trip (as
/// BBR's ProbeRTT does).
class send_window {
 public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::microseconds;

  /// `timeout`: how long a call may take. `first`: the bound on a new connection.
  send_window(duration timeout, std::size_t first)
      : timeout_(std::max(timeout, duration{1000})), first_(first) {
    reset();
  }

  /// Called for a new connection, perhaps to another server. `round_trip`: of its greeting; zero:
  /// unknown.
  void reset(duration round_trip = {}) {
    bound_ = static_cast<double>(first_);
    due_ = in_stretch_ = ran_in_stretch_ = 0;
    round_trip_ = std::min(round_trip, timeout_);
    stretch_start_ = idle_since_ = alone_at_ = cut_at_ = full_at_ = fast_at_ = {};
    drains_at_ = measured_at_ = {};
    measures_ = false;
    first_sample_ = samples_ = 0;
    counts_.fill(0);
    top_ = 0;
  }

  /// Nothing is under way: what is sent next shows the server's round trip alone.
  bool is_idle() const noexcept { return due_ == 0; }

  /// Notes a call. True if its answer will tell the round trip: no other call makes it wait.
  bool sent(std::size_t keys, time now) noexcept {
    const bool alone = measures_ || due_ == 0;
    if (std::exchange(measures_, false) || size() == 1) measured_at_ = now;
    if (due_ == 0) {
      // Time without anything under way says nothing.
      const auto idle = std::chrono::duration_cast<time::duration>(now - idle_since_);
      stretch_start_ += idle;
      fast_at_ += idle;
    }
    due_ += keys;
    if (2 * due_ >= size()) full_at_ = now;
    return alone;
  }

  /// Notes the answer to a call. `alone`: what sent() returned for the call. `ran`: false for an
  /// error reply.
  void answered(std::size_t keys, time sent, bool alone, bool ran, time now) noexcept {
    const auto took = std::chrono::duration_cast<duration>(now - sent);
    note(took, now);
    if (alone) learn_round_trip(took, sent == measured_at_, now);
    if (took < round_trip_) round_trip_ = took;  // the idle server's is no longer
    due_ -= keys;
    if (due_ == 0) idle_since_ = now;
    if (took <= idle_answer()) fast_at_ = now;
    drain(sent, now);
    if (now - stretch_start_ >= stretch()) {
      stretch_start_ = now;
      in_stretch_ = ran_in_stretch_ = 0;
    }
    const double small = 8 * static_cast<double>(first_);
    if (took <= idle_answer()) {
      in_stretch_ += keys;
      if (ran) ran_in_stretch_ += keys;
      bound_ = std::max({bound_, static_cast<double>(ran_in_stretch_) * gain,
                         std::min(static_cast<double>(in_stretch_) * gain, small)});
    } else if (full_at_ >= sent) {
      const duration most = std::max(idle_answer(), timeout_ * slow_answer / 100);
      if (ran && due_ == 0 && took <= timeout_ * good_answer / 100) {
        bound_ = std::max(bound_, std::min(bound_ * slow_gain, small));
      } else if (took > most && sent >= cut_at_) {
        bound_ *= static_cast<double>(most.count()) / static_cast<double>(took.count());
        cut_at_ = now;
      }
    }
  }

  std::size_t size() const noexcept {
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(bound_)));
  }

  /// How many keys the next write may take; 0 if it has to wait for replies. It does not follow
  /// each reply: small writes beget small replies (TCP's "silly window").
  std::size_t room() const noexcept {
    const std::size_t most = size();
    if (due_ == 0) return most;
    if (drains_at_ != time{}) return 0;
    const std::size_t least = std::clamp<std::size_t>(most / 4, 1, first_);
    return most >= due_ + least ? most - due_ : 0;
  }

  /// How long an answer probably takes when so many keys are pending. Zero: unknown.
  duration expected(std::size_t pending) const noexcept {
    if (samples_ < few) return duration{0};
    // The longest tenth is left out: one hiccup must not fail all checks that waited for its end.
    std::size_t above = samples_ / 10;
    std::size_t i = top_;
    for (; i > 0; --i) {
      if (counts_[i] > above) break;
      above -= counts_[i];
    }
    // With less than the window pending, it is not as long.
    const double part = std::min(1.0, static_cast<double>(pending) / static_cast<double>(size()));
    return duration(static_cast<duration::rep>(end_of_bucket(i) * part));
  }

  /// The longest time in which the idle server answers.
  duration idle_answer() const noexcept { return round_trip_ + round_trip_ / 4 + pause; }

 private:
  static constexpr double gain = 1.5;
  static constexpr double slow_gain = 1.3;
  // In percent of `timeout`. An answer in between changes nothing, so the bound comes to rest.
  // These values and the gains fit the servers of unit.overload.
  static constexpr int good_answer = 25, slow_answer = 28;
  static constexpr duration pause{10'000};
  static constexpr duration a_while{1'000'000};
  static constexpr std::size_t few = 8;
  static constexpr std::size_t most_samples = 256;
  static constexpr std::size_t buckets = 150;  // up to two days

  /// Four buckets for each doubling: a time's highest bit, and the two bits behind it.
  static std::size_t bucket_of(duration took) noexcept {
    const auto us = static_cast<std::uint64_t>(std::max<duration::rep>(1, took.count()));
    const auto doublings = static_cast<std::size_t>(std::bit_width(us)) - 1;
    const std::uint64_t quarters = doublings < 2 ? us << (2 - doublings) : us >> (doublings - 2);
    return std::min(buckets - 1, 4 * doublings + (quarters & 3));
  }
  /// The end of the bucket, in microseconds: the next bucket begins there.
  static double end_of_bucket(std::size_t i) noexcept {
    return std::ldexp(5 + static_cast<double>(i % 4), static_cast<int>(i / 4)) / 4;
  }

  /// The length of a stretch.
  duration stretch() const noexcept {
    return std::max(round_trip_ + round_trip_ / 4, std::min(idle_answer(), timeout_ / 2));
  }

  /// A server that does not run all the time answers some calls late, so a longer round trip is
  /// learned within some ten seconds; at once if `measured`: the line was held back for this call,
  /// or the bound is one.
  void learn_round_trip(duration took, bool measured, time now) noexcept {
    const duration own = std::min(took, timeout_);
    const auto apart = std::min<duration>(std::chrono::duration_cast<duration>(now - alone_at_),
                                          a_while);
    const duration whole = measured ? a_while : 10 * a_while;
    if (round_trip_ == duration{0}) round_trip_ = own;
    round_trip_ += (own - round_trip_) * apart.count() / whole.count();
    alone_at_ = now;
  }

  /// Begins or ends the draining of the connection. It also ends with the answer to an urgent call
  /// that was sent meanwhile: all earlier calls are answered then.
  void drain(time sent, time now) noexcept {
    if (drains_at_ == time{}) {
      if (due_ > 0 && now - std::max(alone_at_, fast_at_) > a_while) drains_at_ = now;
    } else if (due_ == 0 || sent >= drains_at_) {
      drains_at_ = {};
      measures_ = true;
    }
  }

  /// Forgets answer times that are older than a timeout, except a few: after a stall, they would
  /// hold calls back for long.
  void note(duration took, time now) noexcept {
    while (samples_ == most_samples || (samples_ > few && sample(0).at < now - timeout_)) {
      --counts_[sample(0).bucket];
      while (top_ > 0 && counts_[top_] == 0) --top_;
      first_sample_ = (first_sample_ + 1) % most_samples;
      --samples_;
    }
    const std::size_t bucket = bucket_of(took);
    sample(samples_++) = {now, static_cast<std::uint8_t>(bucket)};
    ++counts_[bucket];
    top_ = std::max(top_, bucket);
  }

  struct answer_time {
    time at;
    std::uint8_t bucket;
  };
  answer_time& sample(std::size_t i) noexcept { return last_[(first_sample_ + i) % most_samples]; }

  duration timeout_;
  std::size_t first_;
  double bound_ = 0;
  std::size_t due_ = 0;
  duration round_trip_{0};  // zero: not known yet
  time stretch_start_{};
  time idle_since_{};
  time alone_at_{};                 // when round_trip_ was learned
  time cut_at_{};                   // when the bound shrank last
  time full_at_{};                  // when half of the bound was in use last
  time fast_at_{};                  // when an answer came last as soon as from an idle server
  time drains_at_{};                // since when only urgent calls are sent; zero: all are
  time measured_at_{};              // when the last call was sent that measures it
  bool measures_ = false;           // the next call measures the round trip
  std::size_t in_stretch_ = 0;      // keys that were answered in it soon
  std::size_t ran_in_stretch_ = 0;  // of these: without an error

  std::array<answer_time, most_samples> last_;  // samples_ of them, from first_sample_ on
  std::size_t first_sample_ = 0;
  std::size_t samples_ = 0;
  std::array<std::uint16_t, buckets> counts_;  // of each bucket in last_
  std::size_t top_ = 0;                        // no bucket above it has any
};

}  // namespace weir::redis
