// A hundred thousand who stand in the lines of policies that cannot book, in three processes' lines before one store, on a
// clock of the test's own: no policy lets more through than it may, nobody overtakes, and nobody waits while there is room.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>

#include "policy/joint.hpp"
#include "simulation/crowd.hpp"
#include "simulation/simulated_time.hpp"
#include "support/watched_store.hpp"
#include "weir/weir.hpp"

namespace {

using namespace weir;
namespace asio = boost::asio;
using simulation::arrivals;
using simulation::shape;
using simulation::subject_name;
using simulation::subjects;
using simulation::waiter;
using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t ahead = 1'790'000'000'123'456;  // the store's clock
constexpr std::size_t processes = 3;

/// The policies are those of one limiter; or the first is a total, of a limiter for all, and the others are each subject's own.
enum class asked { by_one_limiter, together };

struct line_shape {
  shape of;
  asked how;
};

const line_shape line_shapes[] = {
    {{"window", {sliding_window{.limit = 30, .window = 1s}}}, asked::by_one_limiter},
    {{"window and bucket",
      {sliding_window{.limit = 60, .window = 3s}, gcra{.rate = per_second(30), .burst = 10}}},
     asked::by_one_limiter},
    {{"window and leaky_bucket",
      {sliding_window{.limit = 50, .window = 1s}, leaky_bucket{.capacity = 10, .leak = {3, 70ms}}}},
     asked::by_one_limiter},
    {{"total window, and buckets",
      {sliding_window{.limit = 60, .window = 1s},
       token_bucket{.capacity = 20, .refill = per_second(30)}}},
     asked::together},
    {{"total bucket, and windows",
      {gcra{.rate = per_second(60), .burst = 20}, sliding_window{.limit = 20, .window = 1s}}},
     asked::together},
    {{"total window, and leaky_buckets",
      {sliding_window{.limit = 60, .window = 1s}, leaky_bucket{.capacity = 20, .leak = {3, 70ms}}}},
     asked::together}};

class simulated_lines {
 public:
  simulated_lines(const line_shape& s, bool some_leave)
      : shape_(s),
        some_leave_(some_leave),
        random_(test::run_seed(), some_leave ? 1101 : 1100),
        arrivals_(s.of, random_) {
    for (std::size_t p = 0; p < processes; ++p) {
      if (s.how == asked::by_one_limiter) {
        alone_.push_back(s.of.open(store_));
      } else {
        total_.emplace_back(store_, "total", s.of.policies[0], limiter_options{.group = "g"});
        each_.emplace_back(store_, "each", s.of.policies[1], limiter_options{.group = "g"});
      }
    }
  }

  void run(std::int64_t count) {
    std::int64_t next = simulation::now();
    while (count > 0 || waiting_ > 0) {
      const std::int64_t leaves = leaving_.empty() ? never : leaving_.top().first;
      const std::int64_t time = std::min(
          {count > 0 ? next : never, leaves, simulation::next_timer()});
      require(time != never, "somebody will never wake");
      simulation::advance_to(time);
      if (random_.one_in(2)) context_.poll();
      while (!leaving_.empty() && leaving_.top().first <= simulation::now()) {
        waiter& w = all_[leaving_.top().second];
        if (w.answers == 0) w.leave->emit(asio::cancellation_type::terminal);
        leaving_.pop();
      }
      while (count > 0 && next <= simulation::now()) {
        arrive();
        --count;
        next += arrivals_.gap();
        if (random_.one_in(3)) break;
      }
      next = std::max(next, simulation::now());
      context_.poll();
      if (!some_leave_ && random_.one_in(8)) nobody_waits_where_there_is_room();
    }
    check_order();
    check_policies();
  }

  std::int64_t allowed() const {
    return count([](const waiter& w) { return !w.ec && w.said.allowed; });
  }
  std::int64_t refused() const {
    return count([](const waiter& w) { return !w.ec && !w.said.allowed; });
  }
  std::int64_t left() const {
    return count([](const waiter& w) { return w.ec == asio::error::operation_aborted; });
  }
  std::int64_t asked_for() const { return asked_for_; }

 private:
  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }
  static std::int64_t clock() { return ahead + simulation::now(); }

  /// Those who stand in one line, and are to go as they came.
  using line_key = std::tuple<std::size_t, std::size_t, std::int64_t>;  // process, subject, cost
  static line_key line_of(const waiter& w) { return {w.process, w.subject, w.cost}; }

  template <class Predicate>
  std::int64_t count(Predicate&& p) const {
    return std::count_if(all_.begin(), all_.end(), p);
  }

  void arrive() {
    const std::size_t number = all_.size();
    all_.push_back(arrivals_.next(some_leave_));
    waiter& w = all_.back();
    w.process = static_cast<std::size_t>(random_.between(0, processes - 1));
    w.asked_at = simulation::now();
    w.leave = std::make_unique<asio::cancellation_signal>();
    lines_[line_of(w)].push_back(number);
    ++waiting_;
    auto told = asio::bind_cancellation_slot(
        w.leave->slot(), [this, number](error_code ec, const decision& d) { hear(number, ec, d); });
    const std::string subject = subject_name(w.subject);
    if (shape_.how == asked::by_one_limiter) {
      alone_[w.process].acquire(subject, {.cost = w.cost, .max_wait = microseconds(w.max_wait)},
                                std::move(told));
    } else {
      acquire_all(total_[w.process].on("all", w.cost), each_[w.process].on(subject, w.cost),
                  joint_options{.max_wait = microseconds(w.max_wait)}, std::move(told));
    }
    if (w.leaves_after) leaving_.emplace(simulation::now() + *w.leaves_after, number);
  }

  void hear(std::size_t number, error_code ec, const decision& d) {
    waiter& w = all_[number];
    require(++w.answers == 1, "somebody was answered twice");
    w.answered_at = simulation::now();
    w.ec = ec;
    w.said = d;
    --waiting_;
    require(!ec || ec == asio::error::operation_aborted || ec == error::timed_out, "an error");
    require(w.answered_at <= w.asked_at + w.max_wait, "somebody had to wait for too long");
    if (ec || !d.allowed) return;
    require(d.delay.count() == 0 && d.at.time_since_epoch().count() == clock(),
            "somebody was told late");
    told_.push_back(number);
  }

  /// Nothing is on its way here: whoever is first of a line that could pass now would have been asked for.
  void nobody_waits_where_there_is_room() {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> heads;  // of a process and subject
    for (auto& [key, line] : lines_) {
      std::erase_if(line, [this](std::size_t n) { return all_[n].answers > 0; });
      if (line.empty()) continue;
      const waiter& w = all_[line.front()];
      // Those of another cost stand behind it, if one limiter is asked; else each cost has a line of its own.
      const auto [process, subject, cost] = key;
      if (shape_.how == asked::together) {
        require(!may_pass(w), "somebody waits though there is room");
        continue;
      }
      const auto [head, is_first] = heads.try_emplace({process, subject}, line.front());
      head->second = std::min(head->second, line.front());
    }
    for (const auto& [key, number] : heads) {
      require(!may_pass(all_[number]), "the first of a line waits though there is room");
    }
  }
  bool may_pass(const waiter& w) {
    decision d;
    const auto hear_it = [&d](error_code ec, const decision& said) {
      require(!ec, "a look failed");
      d = said;
    };
    const std::string subject = subject_name(w.subject);
    if (shape_.how == asked::by_one_limiter) {
      alone_[0].fetch(subject, {.cost = w.cost}, hear_it);
    } else {
      fetch_all(total_[0].on("all", w.cost), each_[0].on(subject, w.cost), hear_it);
    }
    context_.poll();
    return d.allowed && d.delay.count() == 0;
  }

  void check_order() const {
    std::map<line_key, std::size_t> last;
    for (const std::size_t number : told_) {
      const auto [before, is_first] = last.try_emplace(line_of(all_[number]), number);
      require(is_first || before->second < number, "somebody was overtaken");
      before->second = number;
    }
  }

  /// Those who passed could all have passed if the others had never come.
  void check_policies() const {
    std::vector<policies::kernel> kernels;
    for (const policy& p : shape_.of.policies) kernels.push_back(policies::compile(p));
    std::map<std::string, policies::any_state> states;
    for (const std::size_t number : told_) {
      const waiter& w = all_[number];
      std::vector<policies::tier<policies::any_state>> tiers;
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        const bool is_total = shape_.how == asked::together && i == 0;
        const std::string key = std::to_string(i) + (is_total ? "" : subject_name(w.subject));
        policies::any_state& state = states[key];
        std::visit([&](const auto& k) { policies::state_for(k, state); }, kernels[i]);
        tiers.push_back({&kernels[i], &state, w.cost});
      }
      const decision d = policies::record_all<policies::any_state>(
          tiers, w.said.at.time_since_epoch().count());
      require(d.allowed && d.delay.count() == 0, "more passed than may");
    }
  }

  using departure = std::pair<std::int64_t, std::size_t>;

  const line_shape& shape_;
  const bool some_leave_;
  test::random_source random_;
  arrivals arrivals_;
  std::int64_t asked_for_ = 0;
  simulation::simulated_context context_;
  const store memory_ = make_memory_store(
      context_.io().get_executor(), {.clock = [] { return time_point(microseconds(clock())); }});
  const store store_{std::make_shared<test::watched_store>(memory_, [this](const detail::check& c) {
    const bool asks = c.kind == detail::check_kind::record || c.kind == detail::check_kind::acquire;
    asked_for_ += asks ? 1 : 0;
  })};
  std::vector<limiter> alone_, total_, each_;
  std::deque<waiter> all_;
  std::int64_t waiting_ = 0;
  std::map<line_key, std::deque<std::size_t>> lines_;
  std::vector<std::size_t> told_;  // who passed, in order
  std::priority_queue<departure, std::vector<departure>, std::greater<>> leaving_;
};

void run_all(bool some_leave) {
  for (const line_shape& s : line_shapes) {
    BOOST_TEST_CONTEXT(s.of.name << ", WEIR_TEST_SEED=" << test::run_seed()) {
      try {
        simulated_lines lines(s, some_leave);
        lines.run(simulation::count_of_waiters());
        BOOST_TEST_MESSAGE(s.of.name << ": " << lines.allowed() << " passed, " << lines.refused()
                                     << " refused, " << lines.left() << " left, "
                                     << lines.asked_for() << " questions");
        const std::int64_t some = simulation::count_of_waiters() / 50;
        BOOST_TEST(lines.allowed() > some);
        BOOST_TEST(lines.refused() > some);
        BOOST_TEST((lines.left() > some) == some_leave);
      } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(askers_suite)

BOOST_AUTO_TEST_CASE(nobody_leaves) { run_all(false); }

BOOST_AUTO_TEST_CASE(anybody_leaves) { run_all(true); }

BOOST_AUTO_TEST_SUITE_END()
