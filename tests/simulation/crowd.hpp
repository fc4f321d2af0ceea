#pragma once

#include <array>
#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "support/random_source.hpp"
#include "weir/limiter.hpp"

namespace weir::simulation {

struct shape {
  const char* name;
  std::vector<policy> policies;
  /// The caller that leaves last leaves no trace. Each other caller that leaves loses less than a
  /// microsecond, a bucket's width, the rest of a window that is not remembered, or what only the
  /// other policy knows.
  bool leaves_no_trace = false;

  limiter open(const store& s) const;
};

/// One of each, and two together.
const std::vector<shape>& shapes();

inline constexpr std::size_t subjects = 4;
std::string subject_name(std::size_t subject);
std::size_t subject_number(std::string_view name);

struct waiter {
  std::size_t number = 0;
  std::size_t subject = 0;
  std::int64_t cost = 0;
  std::int64_t max_wait = 0;
  std::optional<std::int64_t> leaves_after;  // if it has no answer by then
  std::size_t process = 0, connection = 0;

  std::int64_t frame_hint = 0;  // simulated time, as the next
  std::int64_t answered_at = 0;
  int answers = 0;
  error_code ec;
  decision said;
  std::unique_ptr<boost::asio::cancellation_signal> leave;

  std::int64_t turn() const { return (said.decided_at + said.delay).time_since_epoch().count(); }
};

/// Draws which waiters come: now in bursts, now alone, more or fewer than the policies let pass,
/// with all kinds of costs and of patience.
class arrivals {
 public:
  arrivals(const shape& s, test::random_source& random);

  waiter next(bool some_leave);
  /// Until the next one.
  std::int64_t gap();
  /// In which the policies let their limit pass.
  std::int64_t span() const noexcept { return span_; }
  std::int64_t limit() const noexcept { return limit_; }

 private:
  test::random_source& random_;
  std::int64_t span_ = 0;
  std::int64_t limit_ = 0;  // per span
  std::int64_t most_ = max_units;
  std::int64_t load_ = 100;
};

/// Waiters that come, of which some leave, until all have an answer.
class crowd {
 public:
  crowd(const shape& s, std::uint32_t stream)
      : shape_(s), random_(test::run_seed(), stream), arrivals_(s, random_) {}

 protected:
  ~crowd() = default;

  /// Makes so many arrive, and advances the simulated time until nobody waits.
  void run_all(std::int64_t count);
  /// The next waiter, which the derived class asks for.
  waiter& next_waiter(bool some_leave);
  /// Calls acquire() and notes the answer. The waiter leaves after so long, if it has none by then.
  void ask(const limiter& l, waiter& w, std::optional<std::int64_t> leaves_after);
  void leave(waiter& w);

  virtual void arrive() = 0;
  /// Runs all that happens at this time.
  virtual void settle() = 0;
  /// Disturbs the others now and then.
  virtual void disturb(bool more_come) = 0;

  const shape& shape_;
  test::random_source random_;
  arrivals arrivals_;
  std::deque<waiter> all_;
  std::int64_t waiting_ = 0;

 private:
  using departure = std::pair<std::int64_t, std::size_t>;

  std::priority_queue<departure, std::vector<departure>, std::greater<>> leaving_;
};

/// How many come in a test, of a policy: fewer under a sanitizer.
std::int64_t count_of_waiters();

}  // namespace weir::simulation
