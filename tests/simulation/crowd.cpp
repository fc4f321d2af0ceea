#include "simulation/crowd.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <limits>
#include <stdexcept>

#include "simulation/simulated_time.hpp"
#include "support/sanitized.hpp"

namespace weir::simulation {
namespace {

using namespace std::chrono_literals;

/// What a policy lets pass: so many units in so long.
struct measure {
  std::int64_t limit;
  std::int64_t span;
};

measure measure_of(std::int64_t size, const rate& r) {
  return {size, static_cast<std::int64_t>(static_cast<double>(size) / static_cast<double>(r.count) *
                                          static_cast<double>(r.period.count())) +
                    1};
}

struct measuring {
  measure operator()(const fixed_window& p) const { return {p.limit, p.window.count()}; }
  measure operator()(const sliding_log& p) const { return {p.limit, p.window.count()}; }
  measure operator()(const sliding_window& p) const { return {p.limit, p.window.count()}; }
  measure operator()(const token_bucket& p) const { return measure_of(p.capacity, p.refill); }
  measure operator()(const gcra& p) const { return measure_of(p.burst, p.rate); }
  measure operator()(const leaky_bucket& p) const { return measure_of(p.capacity, p.leak); }
};

}  // namespace

limiter shape::open(const store& s) const {
  return policies.size() == 1 ? limiter(s, "r", policies[0])
                              : limiter(s, "r", tiers(policies[0], policies[1]));
}

const std::vector<shape>& shapes() {
  static const std::vector<shape> all = {
      {"token_bucket", {token_bucket{.capacity = 20, .refill = per_second(100)}}, true},
      {"token_bucket in parts", {token_bucket{.capacity = 13, .refill = {7, 3ms}}}},
      {"gcra", {gcra{.rate = per_minute(50), .burst = 7}}, true},
      {"leaky_bucket", {leaky_bucket{.capacity = 10, .leak = per_second(50)}}, true},
      {"leaky_bucket in parts", {leaky_bucket{.capacity = 10, .leak = {3, 7ms}}}, true},
      {"sliding_log", {sliding_log{.limit = 30, .window = 1s}}, true},
      {"sliding_log with a resolution",
       {sliding_log{.limit = 30, .window = 1s, .resolution = 100ms}}},
      {"fixed_window", {fixed_window{.limit = 25, .window = 1s}}},
      {"fixed_window of the epoch",
       {fixed_window{.limit = 25, .window = 1s, .anchor = anchor::epoch, .offset = 333ms}}},
      {"sliding_window", {sliding_window{.limit = 30, .window = 1s}}},
      {"sliding_window and leaky_bucket",
       {sliding_window{.limit = 50, .window = 1s},
        leaky_bucket{.capacity = 10, .leak = {3, 70ms}}}},
      {"sliding_window and bucket",
       {sliding_window{.limit = 60, .window = 3s}, gcra{.rate = per_second(30), .burst = 10}}},
      {"bucket and window",
       {token_bucket{.capacity = 10, .refill = per_second(50)},
        fixed_window{.limit = 100, .window = 3s, .anchor = anchor::epoch}}},
      {"log and bucket",
       {sliding_log{.limit = 20, .window = 1s}, gcra{.rate = per_second(10), .burst = 60}}}};
  return all;
}

std::string subject_name(std::size_t subject) { return "subject " + std::to_string(subject); }

std::size_t subject_number(std::string_view name) {
  return static_cast<std::size_t>(name.back() - '0');
}

arrivals::arrivals(const shape& s, test::random_source& random) : random_(random) {
  // The policy that lets the least pass in the long run sets the pace.
  for (const policy& p : s.policies) {
    const measure m = std::visit(measuring(), p);
    if (limit_ == 0 || m.limit * span_ < limit_ * m.span) {
      limit_ = m.limit;
      span_ = m.span;
    }
    most_ = std::min(most_, m.limit);
  }
}

waiter arrivals::next(bool some_leave) {
  waiter w{};
  w.subject = static_cast<std::size_t>(random_.between(0, subjects - 1));
  const std::int64_t most = random_.one_in(20) ? most_ : std::min<std::int64_t>(most_, 6);
  w.cost = random_.one_in(2) ? 1 : random_.magnitude(most);
  w.max_wait = random_.one_in(8)   ? random_.between(0, 3)
               : random_.one_in(2) ? random_.magnitude(10 * span_)
                                   : random_.between(0, 10 * span_);
  if (some_leave && random_.one_in(2)) {
    w.leaves_after = random_.between(0, random_.magnitude(w.max_wait + 1));
  }
  return w;
}

std::int64_t arrivals::gap() {
  if (random_.one_in(500)) load_ = random_.pick(std::array{50, 110, 150, 300});
  if (random_.one_in(2000)) return random_.between(0, 20 * span_);
  if (random_.one_in(3)) return 0;
  // A cost of two on the average, and two of three come alone.
  const std::int64_t mean = 3 * span_ * 100 /
                            (limit_ * static_cast<std::int64_t>(subjects) * load_);
  return random_.between(0, 2 * mean + 1);
}

void crowd::run_all(std::int64_t count) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t next = now();
  while (count > 0 || waiting_ > 0) {
    const std::int64_t leaves = leaving_.empty() ? never : leaving_.top().first;
    const std::int64_t time = std::min({count > 0 ? next : never, leaves, next_timer()});
    if (time == never) throw std::runtime_error("a waiter will never wake");
    advance_to(time);
    // A waiter whose reservation has come now may also leave now, or a moment ago.
    if (random_.one_in(2)) settle();
    while (!leaving_.empty() && leaving_.top().first <= now()) {
      leave(all_[leaving_.top().second]);
      leaving_.pop();
    }
    while (count > 0 && next <= now()) {
      arrive();
      --count;
      next += arrivals_.gap();
      if (random_.one_in(3)) break;
    }
    next = std::max(next, now());
    disturb(count > 0);
    settle();
  }
}

waiter& crowd::next_waiter(bool some_leave) {
  const std::size_t number = all_.size();
  waiter& w = all_.emplace_back(arrivals_.next(some_leave));
  w.number = number;
  w.frame_hint = now();
  w.leave = std::make_unique<boost::asio::cancellation_signal>();
  ++waiting_;
  return w;
}

void crowd::ask(const limiter& l, waiter& w, std::optional<std::int64_t> leaves_after) {
  l.acquire(subject_name(w.subject),
            {.cost = w.cost, .max_wait = std::chrono::microseconds(w.max_wait)},
            boost::asio::bind_cancellation_slot(w.leave->slot(),
                                                [this, &w](error_code ec, const decision& d) {
                                                  w.answered_at = now();
                                                  ++w.answers;
                                                  w.ec = ec;
                                                  w.said = d;
                                                  --waiting_;
                                                }));
  if (leaves_after) leaving_.emplace(now() + *leaves_after, w.number);
}

void crowd::leave(waiter& w) {
  if (w.answers == 0 && w.leave) w.leave->emit(boost::asio::cancellation_type::terminal);
}

std::int64_t count_of_waiters() { return test::is_sanitized ? 10'000 : 50'000; }

}  // namespace weir::simulation
