#pragma once

#include <boost/test/unit_test.hpp>
#include <deque>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "model/tier_script.hpp"
#include "redis/script/record_reply.hpp"
#include "redis/script/scripts.hpp"
#include "support/random_source.hpp"
#include "support/script_harness.hpp"

namespace weir::model {

/// The scripts that a plain record may run: those of several kernels, or, of a single one, its own
/// with the common path, in turn at random.
class record_scripts {
 public:
  explicit record_scripts(test::redis_client& client) : client_(client), joint_(client) {
    for (std::size_t i = 0; i < redis::first_common_path; ++i) {
      scripts_.emplace_back(client, redis::scripts()[i].text);
    }
  }

  /// The time, and what the script found: 1 + asked.width() numbers.
  std::vector<std::int64_t> run(const tier_script& asked, std::int64_t now, std::int64_t checks,
                                test::random_source& random) {
    // The scripts of several kernels count nothing that is refused.
    const bool counts_refused = std::visit([](const auto& k) { return k.counts_refused(); },
                                           asked.kernels[0]);
    if (asked.kernels.size() > 1 || (!counts_refused && random.one_in(3))) {
      joint_.set_clock(now);
      return asked.check(joint_, checks, random.one_in(3));
    }
    return std::visit(
        [&]<class Kernel>(const Kernel& kernel) {
          test::script_harness& own = scripts_[redis::script_for(asked.kernels[0])];
          own.set_clock(now);
          const auto constants = redis::record_arguments(kernel, asked.costs[0]);
          const std::vector<std::int64_t> counts(checks == 1 ? 0 : 1, checks);
          own.send_run(asked.keys, constants, counts);
          std::vector<std::int64_t> found(1 + asked.width());
          const redis::reply_view& reply = client_.read_view();
          if (!redis::read_found(kernel, reply, found)) {
            throw std::runtime_error("the script answers " + std::string(reply.root().text));
          }
          return found;
        },
        asked.kernels[0]);
  }

 private:
  test::redis_client& client_;
  joint_scripts joint_;
  std::deque<test::script_harness> scripts_;  // as in redis::scripts()
};

/// Whatever has written them: each key that is there has a TTL that ends no earlier than the grace
/// after its state.
template <class State>
void require_ttls(test::redis_client& client, const tier_script& asked,
                  const std::vector<State>& states) {
  for (std::size_t i = 0; i < asked.keys.size(); ++i) {
    const std::int64_t left = client.must("PTTL", asked.keys[i]).integer;
    if (left == -2) continue;
    const test::reply end = client.must("HGET", "test:ttl", asked.keys[i]);
    std::visit(
        [&]<class Kernel>(const Kernel& kernel) {
          const auto* state = std::get_if<typename Kernel::state>(&states[i]);
          const std::int64_t ends = state == nullptr ? 0 : kernel.matters_until(*state);
          if (left == -1 || end.is_null() || std::stoll(end.text) < ends + policies::grace) {
            throw std::runtime_error("the TTL of " + asked.keys[i] + " ends at " + end.text +
                                     ", its state at " + std::to_string(ends));
          }
        },
        asked.kernels[i]);
  }
}

}  // namespace weir::model
