#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/script/call_parts.hpp"
#include "redis/script/joint_call.hpp"
#include "redis/script/scripts.hpp"
#include "support/redis_client.hpp"
#include "support/script_harness.hpp"

namespace weir::model {

/// Appends what a full kernel takes.
inline void append_constants(std::vector<std::int64_t>& to, const policies::kernel& kernel,
                             std::int64_t cost) {
  std::visit(
      [&]<class Kernel>(const Kernel& k) {
        const auto own = k.arguments(cost);
        BOOST_TEST_REQUIRE(own.values().size() == Kernel::script_constants);
        to.insert(to.end(), own.values().begin(), own.values().end());
      },
      kernel);
}

/// The scripts that answer checks with several keys, and reservations, under a clock of the test's
/// own.
class joint_scripts {
 public:
  explicit joint_scripts(test::redis_client& client) : client_(client) {}

  /// All scripts of a server share the clock.
  void set_clock(std::int64_t now) { harness_of({}, redis::script_task::record).set_clock(now); }

  /// The time, and then what the script found of each check, at all tiers. `keys` has one per tier
  /// for each check. It takes the common path, if there is one and `full` is not set.
  std::vector<std::int64_t> run(std::span<const redis::call_tier> tiers,
                                std::span<const std::string> keys,
                                std::span<const std::int64_t> counts, bool full,
                                bool may_share_keys = false) {
    send(tiers, keys, counts, full, may_share_keys, {});
    std::vector<std::int64_t> found(1 + keys.size() / tiers.size() * redis::reply_width(tiers));
    const redis::reply_view& reply = client_.read_view();
    if (!redis::read_found_tiers(tiers, reply, found)) refuse(reply);
    return found;
  }

  /// The same for reservations: what redis::read_found_turns() says.
  std::vector<std::int64_t> reserve(std::span<const redis::call_tier> tiers,
                                    std::span<const std::string> keys,
                                    std::span<const std::int64_t> counts, std::int64_t max_wait,
                                    bool full, bool may_share_keys = false) {
    send(tiers, keys, counts, full, may_share_keys, max_wait);
    std::vector<redis::call_key> asked(keys.size() / tiers.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      asked[i].count = i < counts.size() ? static_cast<std::uint32_t>(counts[i]) : 1;
    }
    std::vector<std::int64_t> found;
    const redis::reply_view& reply = client_.read_view();
    if (!redis::read_found_turns(tiers, asked, reply, found)) refuse(reply);
    return found;
  }

 private:
  void send(std::span<const redis::call_tier> tiers, std::span<const std::string> keys,
            std::span<const std::int64_t> counts, bool full, bool may_share_keys,
            std::optional<std::int64_t> max_wait) {
    const auto task = max_wait ? redis::script_task::reserve : redis::script_task::record;
    const redis::script_tiers made_of = full ? redis::script_tiers()
                                             : redis::script_tiers_of(tiers, task);
    const std::size_t checks = keys.size() / tiers.size();
    std::vector<std::string> by_tier;
    for (std::size_t t = 0; t < tiers.size(); ++t) {
      for (std::size_t i = 0; i < checks; ++i) by_tier.push_back(keys[i * tiers.size() + t]);
    }
    test::script_harness& script = harness_of(made_of, task);
    if (made_of.empty()) {
      std::vector<std::int64_t> arguments{static_cast<std::int64_t>(tiers.size())};
      for (const redis::call_tier& t : tiers) {
        arguments.push_back(redis::number_of(t.kernel));
        append_constants(arguments, t.kernel, t.cost);
      }
      if (max_wait) arguments.push_back(*max_wait);
      script.send_run(by_tier, arguments, counts);
    } else {
      std::string packed[1];
      redis::pack_constants(packed[0], tiers, may_share_keys, max_wait);
      script.send_run(by_tier, packed, counts);
    }
  }

  [[noreturn]] static void refuse(const redis::reply_view& reply) {
    throw std::runtime_error("the script answers " + std::string(reply.root().text));
  }

  /// Makes its own scripts, because the process makes only some.
  test::script_harness& harness_of(const redis::script_tiers& tiers, redis::script_task task) {
    std::pair<redis::script_task, std::vector<const char*>> which{task, {}};
    for (const redis::script_tier& t : tiers) which.second.push_back(t.part.data());
    if (const auto made = made_.find(which); made != made_.end()) return made->second;
    const std::string text = redis::make_script(tiers, task).text;
    return made_.try_emplace(std::move(which), client_, text).first->second;
  }

  test::redis_client& client_;
  std::map<std::pair<redis::script_task, std::vector<const char*>>, test::script_harness> made_;
};

}  // namespace weir::model
