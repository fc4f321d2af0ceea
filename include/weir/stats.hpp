#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/error.hpp"

namespace weir {

/// How long many things took: counts in steps of an eighth of a power of two, from 1 us to two
/// hours. A value like any other; two threads must not use one object at the same time.
class WEIR_EXPORT duration_histogram {
 public:
  /// Counts one that took this long; what is above the last step counts there.
  void add(std::chrono::microseconds took) noexcept;
  duration_histogram& operator+=(const duration_histogram& other) noexcept;

  std::uint64_t count() const noexcept;
  std::chrono::microseconds sum() const noexcept { return std::chrono::microseconds(sum_); }

  /// The time within which the part `q`, from 0 to 1, ended: 0.99 for p99. Up to an eighth above
  /// the truth. Zero if the histogram is empty.
  std::chrono::microseconds quantile(double q) const noexcept;

  /// How many took at most `bound`, counted to the end of the step in which `bound` lies.
  std::uint64_t count_within(std::chrono::microseconds bound) const noexcept;

 private:
  static constexpr std::size_t steps = 248;

  std::array<std::uint64_t, steps> counts_{};
  std::uint64_t sum_ = 0;
};

/// How calls ended. Calls that take units (record, acquire, enter and their _all forms) are allowed
/// or refused; fetch, refund, settle, cool_down, on_response and reset are `other` if they had no
/// error.
struct WEIR_EXPORT call_counts {
  /// By decision::source: `allowed[static_cast<std::size_t>(source::store)]`.
  std::array<std::uint64_t, 4> allowed{};
  std::array<std::uint64_t, 4> refused{};
  std::uint64_t other = 0;
  std::uint64_t cancelled = 0;  ///< operation_aborted
  /// Each error that calls ended with, and how many; sorted by error. error{} (zero) stands for
  /// errors that are not this library's.
  std::vector<std::pair<error, std::uint64_t>> failed{};
  /// The errors in place of which limiter_options::on_failure gave a decision (decision::failure),
  /// likewise. These calls count as allowed or refused by source::fallback.
  std::vector<std::pair<error, std::uint64_t>> covered{};

  std::uint64_t all_allowed() const noexcept;
  std::uint64_t all_refused() const noexcept;
  std::uint64_t all_failed() const noexcept;
  /// All calls that have ended.
  std::uint64_t total() const noexcept {
    return all_allowed() + all_refused() + other + cancelled + all_failed();
  }
};

/// What a connection does at present.
enum class connection_state : std::uint8_t {
  connecting,  ///< it looks up the name, connects, or waits for the greeting
  ready,       ///< the server answers calls
  pausing,     ///< the last attempt failed; the next one comes after a pause
  closing,     ///< it was given up, and ends
  closed,      ///< for good
};

/// The name of the enumerator, such as "ready". Empty for other numbers.
[[nodiscard]] WEIR_EXPORT std::string_view to_string(connection_state state) noexcept;

/// One connection of a store, since the store was made. In a Redis Cluster, a connection to a node
/// that is made anew begins with zeros.
struct connection_stats {
  /// "host:port", or the path of a Unix socket; empty before it is known
  std::string address = {};
  connection_state state = connection_state::pausing;
  time_point since{};  ///< of `state`, by this process's clock
  std::uint64_t connects = 0;
  /// Why it was lost, and how often; sorted by error. See event::cause.
  std::vector<std::pair<error, std::uint64_t>> lost{};
  /// The last error of an attempt or of the connection, and when; zero: there was none.
  error last_error{};
  time_point last_error_at{};
  bool is_circuit_open = false;
  std::size_t pending = 0;  ///< calls that wait or are under way, in units of max_pending
  /// Requests: script calls to Redis, commands to memcached, greetings left out.
  std::uint64_t requests = 0;
  std::uint64_t checks = 0;        ///< checks that the requests carried
  std::uint64_t scripts_sent = 0;  ///< Redis: how often a script was sent as text
  /// From sending to the reply, of requests and of the connection's own commands, such as PING.
  duration_histogram round_trips = {};
};

/// What store::stats() gives. The numbers are read one after the other while calls go on: sums may
/// differ by what ended meanwhile.
struct WEIR_EXPORT store_stats {
  /// of all limiters and gates of the store; a call of several counts once
  call_counts calls = {};
  std::vector<connection_stats> connections{};  ///< none for a memory store

  std::size_t pending() const noexcept;
  duration_histogram round_trips() const noexcept;
};

/// A subject of limiter_options::most_refused.
struct refused_subject {
  std::string subject;  ///< its first 128 bytes
  std::uint64_t count = 0;
  std::uint64_t excess = 0;  ///< `count` may be too high by up to this
};

/// What limiter::stats() and concurrency_limiter::stats() give: of the object and its copies, in
/// this process.
struct limiter_stats {
  call_counts calls = {};  ///< a call of several limiters counts at each of them
  /// Refusals by the position of the tier that refused; empty with one tier.
  std::vector<std::uint64_t> refused_by_tier{};
  std::uint64_t refused_by_cool_down = 0;

  std::size_t waiting = 0;         ///< waiters of acquire() now, not those of acquire_all()
  duration_histogram waited = {};  ///< how long acquire() had callers wait, if at all
  std::uint64_t gave_up = 0;       ///< calls of acquire() that were cancelled

  std::uint64_t cool_downs_begun = 0;    ///< by this limiter's calls
  std::uint64_t cool_downs_joined = 0;   ///< begun elsewhere; an answer told of them
  std::uint64_t cool_downs_clamped = 0;  ///< cut to max_cool_down, of this limiter's calls
  std::size_t cooling_down = 0;          ///< subjects that this process knows to be cooling down

  std::size_t leases_held = 0;  ///< of a gate
  std::uint64_t leases_lost = 0;

  /// limiter_options::most_refused, the most refused first.
  std::vector<refused_subject> most_refused{};
};

}  // namespace weir
