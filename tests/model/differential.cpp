#include "model/differential.hpp"

#include "model/joint_scripts.hpp"
#include "model/policy_shapes.hpp"
#include "model/reference.hpp"
#include "model/trace_clock.hpp"
#include "policy/kernel.hpp"
#include "redis/script/scripts.hpp"
#include "support/text.hpp"

namespace weir::model {
namespace {

constexpr std::int64_t now_in_tests = 1'790'000'000'123'456;
constexpr std::int64_t checks_together = 50;
constexpr std::size_t calls_in_flight = 500;

template <class Kernel>
class tracer {
 public:
  tracer(const policy& p, const Kernel& kernel, test::random_source& random, tally& totals,
         test::redis_client* client, joint_scripts* scripts, std::string label)
      : policy_(p),
        kernel_(kernel),
        random_(random),
        totals_(totals),
        client_(client),
        scripts_(scripts),
        label_(std::move(label)),
        clock_(random, client ? now_in_tests : random.pick(process_clocks), span_of(p)) {
    for (std::int64_t i = random.between(1, 4); i > 0; --i) {
      subjects_.push_back({make_reference(p, most_of(p)), {}, label_ + std::to_string(i)});
    }
  }

  void run(std::int64_t steps) {
    for (const std::int64_t end = totals_.steps + steps; totals_.steps < end; ++step_) {
      clock_.advance();
      if (random_.one_in(300)) reset(random_.pick(subjects_));
      make_call();
      if (calls_.size() >= calls_in_flight) compare_replies();
    }
    compare_replies();
    if (client_) {
      for (const subject& s : subjects_) client_->send("DEL", s.key);
      for (std::size_t i = 0; i < subjects_.size(); ++i) client_->read_view();
    }
  }

 private:
  // In one process the clock may count from anywhere, 0 included.
  static constexpr std::int64_t process_clocks[] = {now_in_tests, 0, 5, 1'000'000'000};

  struct subject {
    std::unique_ptr<reference> expected;
    typename Kernel::state state;
    std::string key;
  };
  struct visit {
    std::string key;
    std::int64_t count;  // 0: fetch
    std::vector<decision> expected;
    std::int64_t matters_until;  // of what this visit wrote; -1: nothing
  };
  struct call {
    std::int64_t step, now, cost;
    std::vector<visit> visits;
    bool asks_ttl;
  };

  void reset(const subject& chosen) {
    subject& s = const_cast<subject&>(chosen);
    compare_replies();
    s.expected = make_reference(policy_, most_of(policy_));
    s.state = {};
    if (client_) client_->call("DEL", s.key);
  }

  std::int64_t choose_cost() {
    const std::int64_t most = kernel_.ceiling();
    const subject& s = random_.pick(subjects_);
    const std::int64_t remaining = s.expected->fetch(clock_.now(), 1).remaining;
    switch (random_.between(0, 9)) {
      case 0:
        return random_.between(1, most);
      case 1:
        return most;
      case 2:
        return random_.magnitude(most);
      case 3:
        return std::min(most, remaining == unlimited ? most : remaining + 1);
      case 4:
        return std::clamp<std::int64_t>(remaining, 1, most);
      case 5:
      case 6:
        return std::max<std::int64_t>(1, most / random_.between(2, 20));
      default:
        return 1;
    }
  }

  std::int64_t choose_count(bool is_plain) {
    if (is_plain) return 1;
    if (random_.one_in(4)) return 0;
    if (!kernel_.coalesces() || random_.one_in(2)) return 1;
    return random_.magnitude(checks_together);
  }

  void make_call() {
    call c{step_, clock_.now(), choose_cost(), {}, random_.one_in(4)};
    latest_ = std::max(latest_, c.now);
    const std::size_t keys = static_cast<std::size_t>(
        random_.between(1, static_cast<std::int64_t>(subjects_.size())));
    const std::size_t first = static_cast<std::size_t>(random_.between(0, 3));
    // As most calls are: one check of each key, and no counts.
    const bool is_plain = random_.one_in(2);
    for (std::size_t i = 0; i < keys; ++i) {
      subject& s = subjects_[(first + i) % subjects_.size()];
      c.visits.push_back(make_visit(c, s, choose_count(is_plain)));
    }
    if (client_) {
      send(c);
      calls_.push_back(std::move(c));
    }
  }

  visit make_visit(const call& c, subject& s, std::int64_t count) {
    visit v{s.key, count, {}, -1};
    ++totals_.steps;
    if (v.count == 0) {
      v.expected.push_back(s.expected->fetch(c.now, c.cost));
      compare("C++ fetch", c, v, 0, kernel_.fetch(s.state, c.now, c.cost));
      ++totals_.fetched;
    }
    bool written = false;
    for (std::int64_t i = 0; i < v.count; ++i) {
      const std::int64_t mattered = kernel_.matters_until(s.state);
      const decision before = s.expected->fetch(c.now, c.cost);
      v.expected.push_back(s.expected->record(c.now, c.cost));
      const decision& after = v.expected.back();
      compare("C++ record", c, v, static_cast<std::size_t>(i),
              kernel_.record(s.state, c.now, c.cost));
      written = written || after.allowed || after.used != before.used ||
                kernel_.matters_until(s.state) != mattered;
    }
    if (written) v.matters_until = kernel_.matters_until(s.state);
    for (const decision& d : v.expected) {
      ++totals_.decisions;
      totals_.refused += !d.allowed;
      totals_.behind += c.now < latest_;
      clock_.hear(d);
    }
    return v;
  }

  void send(const call& c) {
    std::vector<std::string> keys;
    std::vector<std::int64_t> counts;
    for (const visit& v : c.visits) {
      keys.push_back(v.key);
      counts.push_back(v.count);
    }
    // As the client does: trailing ones are left out.
    while (!counts.empty() && counts.back() == 1) counts.pop_back();
    scripts_->send_clock(c.now);
    const redis::call_tier tiers[] = {{kernel_, c.cost}};
    scripts_->send(tiers, keys, counts, false, false);
    if (c.asks_ttl) {
      for (const visit& v : c.visits) client_->send("HGET", "test:ttl", v.key);
    }
  }

  void compare_replies() {
    for (const call& c : calls_) {
      client_->read_view();  // the clock is set
      const redis::call_tier tiers[] = {{kernel_, c.cost}};
      const auto numbers = scripts_->read(tiers, c.visits.size());
      if (numbers[0] != c.now) fail(c, "the script's now is " + std::to_string(numbers[0]));
      std::span<const std::int64_t> fields = numbers;
      fields = fields.subspan(1);
      for (const visit& v : c.visits) {
        compare_replay(c, v, fields.first(Kernel::reply_width));
        fields = fields.subspan(Kernel::reply_width);
      }
      if (c.asks_ttl) {
        for (const visit& v : c.visits) compare_ttl(c, v, client_->read());
      }
    }
    calls_.clear();
  }

  void compare_replay(const call& c, const visit& v, std::span<const std::int64_t> fields) {
    typename Kernel::replay state;
    if (!Kernel::restore(fields, state)) fail(c, "restore() refuses the state of " + v.key);
    if (v.count == 0) compare("Lua fetch", c, v, 0, kernel_.fetch(state, c.now, c.cost));
    for (std::int64_t i = 0; i < v.count; ++i) {
      compare("Lua record", c, v, static_cast<std::size_t>(i),
              kernel_.record(state, c.now, c.cost));
    }
  }

  /// Rule 3: as long as the state matters and the grace, and at most one or two milliseconds
  /// longer; on the grid, up to the next line.
  void compare_ttl(const call& c, const visit& v, const test::reply& reply) {
    if (v.matters_until < 0) return;
    const std::int64_t line = (v.matters_until / policies::grid + 1) * policies::grid;
    // What a bucket's end says of its TTL does not depend on the policy; a window's key says it.
    const std::int64_t ends = Kernel::kind == policies::kernel_kind::bucket ? line
                                                                            : v.matters_until;
    const std::int64_t needed = ends + policies::grace - c.now;
    const std::int64_t most = (policies::is_policy(Kernel::kind) ? line : ends) + policies::grace -
                              c.now;
    const std::int64_t got = reply.is_null() ? -1 : std::stoll(reply.text) - c.now;
    if (got < needed || got > most + 2000) {
      fail(c,
           v.key + " has a TTL of " + std::to_string(got) + " us, needs " + std::to_string(needed));
    }
  }

  void compare(const char* who, const call& c, const visit& v, std::size_t place,
               const decision& got) {
    if (got == v.expected[place]) return;
    fail(c, v.key + ", " + who + " of check " + std::to_string(place + 1) + " of " +
                std::to_string(v.count) + "\n  reference: " + test::text_of(v.expected[place]) +
                "\n  got:       " + test::text_of(got));
  }

  [[noreturn]] void fail(const call& c, const std::string& what) {
    throw std::runtime_error(label_ + " " + test::text_of(policy_) + "\n  call " +
                             std::to_string(c.step) + ", now=" + std::to_string(c.now) +
                             " cost=" + std::to_string(c.cost) + ": " + what);
  }

  const policy& policy_;
  const Kernel& kernel_;
  test::random_source& random_;
  tally& totals_;
  test::redis_client* client_;
  joint_scripts* scripts_;
  std::string label_;
  trace_clock clock_;
  std::vector<subject> subjects_;
  std::int64_t step_ = 0;
  std::int64_t latest_ = 0;  // that the clock has been
  std::deque<call> calls_;
};

}  // namespace

struct differential::scripts {
  joint_scripts all;
};

differential::differential(test::redis_client* client, std::uint64_t seed, std::uint32_t stream)
    : seed_(seed), random_(seed, stream), client_(client) {
  if (client_) scripts_ = std::make_unique<scripts>(joint_scripts(*client_));
}

differential::~differential() = default;

void differential::trace(const policy& p, std::int64_t steps) {
  const policies::kernel compiled = policies::compile(p);
  const std::string label = "WEIR_TEST_SEED=" + std::to_string(seed_) + " trace " +
                            std::to_string(++traces_) + ":";
  std::visit(
      [&](const auto& kernel) {
        joint_scripts* const scripts = client_ ? &scripts_->all : nullptr;
        const redis::call_tier tiers[] = {{compiled, 1}};
        // Loads it: later, replies are due.
        if (scripts) scripts->harness_of(joint_scripts::list_of(tiers, false));
        tracer(p, kernel, random_, totals_, client_, scripts, label).run(steps);
      },
      compiled);
}

}  // namespace weir::model
