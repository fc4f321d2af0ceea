#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/joint_scripts.hpp"
#include "policy/kernel.hpp"
#include "support/doubles.hpp"
#include "support/redis_server.hpp"
#include "support/script_harness.hpp"
#include "support/text.hpp"
#include "weir/policy.hpp"

/// Policies' scripts in a real server, for tests of the state that they leave and find there.
namespace weir::model::script_state {

using namespace std::chrono_literals;

inline constexpr std::int64_t t0 = 1'790'000'000'123'456;

/// One of each kind, each refusing the fourth request; windows and refills of a few milliseconds,
/// and below one.
inline const policy all_policies[] = {
    fixed_window{3, 5ms},
    fixed_window{3, 700us, anchor::epoch, 99us},
    fixed_window{.limit = 3, .window = 5ms, .count_refused = true},
    sliding_log{3, 5ms},
    sliding_log{3, 5ms, 300us},
    sliding_log{.limit = 3, .window = 700us, .count_refused = true},
    sliding_window{3, 5ms},
    sliding_window{.limit = 3, .window = 700us, .count_refused = true},
    token_bucket{3, per_second(1000)},
    token_bucket{3, {7, 3s}},
    gcra{{3, 70us}, 3},
    leaky_bucket{3, per_day(999'983)},
};

/// How much longer than its state a key may stay, in microseconds, beyond the grace.
inline std::int64_t most_longer(const policy& p) {
  return std::visit(
      []<class Kernel>(const Kernel&) {
        return policies::is_policy(Kernel::kind) ? policies::grid : 0;
      },
      policies::compile(p));
}

struct script_fixture {
  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};

  std::string dump(const std::string& key) {
    const test::reply r = client.must("DUMP", key);
    return r.is_null() ? "" : r.text;
  }
};

/// One policy's script in a real server.
class script_subject {
 public:
  script_subject(script_fixture& in, const policy& p)
      : in_(in), kernel_(policies::compile(p)), scripts_(in.client) {}

  /// Empty if restore() finds the key to hold something else.
  std::vector<std::optional<decision>> check(const std::vector<std::string>& keys, std::int64_t now,
                                             std::int64_t count, std::int64_t cost = 1) {
    return std::visit([&](const auto& k) { return check_with(k, keys, now, count, cost); },
                      kernel_);
  }
  decision record(const std::string& key, std::int64_t now, std::int64_t cost = 1) {
    return check({key}, now, 1, cost).front().value();
  }
  decision fetch(const std::string& key, std::int64_t now, std::int64_t cost = 1) {
    return check({key}, now, 0, cost).front().value();
  }
  /// One request in each microsecond from `from` to before `to`. The answers are dropped.
  void fill(const std::string& key, std::int64_t from, std::int64_t to) {
    const redis::call_tier tiers[] = {{kernel_, 1}};
    const std::string keys[] = {key};
    for (std::int64_t sent = from, read = from; read < to; ++read) {
      for (; sent < std::min(read + 500, to); ++sent) {
        harness().send_clock(sent);
        scripts_.send(tiers, keys, {}, false, false);
      }
      for (int replies = 0; replies < 2; ++replies) {
        const test::reply r = in_.client.read();
        if (r.is_error()) throw std::runtime_error(r.text);
      }
    }
  }
  std::optional<std::int64_t> requested_ttl(const std::string& key) {
    return harness().requested_ttl(key);
  }
  void forget_ttl(const std::string& key) { harness().forget_ttl(key); }

 private:
  template <class Kernel>
  std::vector<std::optional<decision>> check_with(const Kernel& kernel,
                                                  const std::vector<std::string>& keys,
                                                  std::int64_t now, std::int64_t count,
                                                  std::int64_t cost) {
    harness().set_clock(now);
    // As the client does: counts of 1 are left out, and the common path is then shorter.
    const std::vector<std::int64_t> counts(count == 1 ? 0 : keys.size(), count);
    const redis::call_tier tiers[] = {{kernel_, cost}};
    const auto numbers = scripts_.run(tiers, keys, counts, false);
    std::vector<std::optional<decision>> answers;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto all = std::span(numbers);
      typename Kernel::replay state;
      std::optional<decision>& answer = answers.emplace_back();
      if (!Kernel::restore(all.subspan(1 + i * Kernel::reply_width, Kernel::reply_width), state)) {
        continue;
      }
      answer = count == 0 ? kernel.fetch(state, now, cost) : kernel.record(state, now, cost);
      for (std::int64_t more = 1; more < count; ++more) answer = kernel.record(state, now, cost);
    }
    return answers;
  }

  test::script_harness& harness() {
    const redis::call_tier tiers[] = {{kernel_, 1}};
    return scripts_.harness_of(joint_scripts::list_of(tiers, false));
  }

  script_fixture& in_;
  policies::kernel kernel_;
  joint_scripts scripts_;
};

using test::doubles;

}  // namespace weir::model::script_state
