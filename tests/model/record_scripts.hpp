#pragma once

#include <variant>

#include "model/tier_script.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace weir::model {

/// The scripts that a plain record may run: with the common path, or, at random, without it.
class record_scripts {
 public:
  explicit record_scripts(test::redis_client& client) : scripts_(client) {}

  /// The time, and what the script found: 1 + asked.width() numbers.
  std::vector<std::int64_t> run(const tier_script& asked, std::int64_t now, std::int64_t checks,
                                test::random_source& random) {
    scripts_.set_clock(now);
    return asked.check(scripts_, checks, random.one_in(3));
  }

 private:
  joint_scripts scripts_;
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
