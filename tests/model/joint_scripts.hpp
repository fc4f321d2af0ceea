#pragma once

#include "redis/script/call_writer.hpp"
#include "redis/script/reply.hpp"
#include "redis/script/scripts.hpp"
#include "support/script_harness.hpp"
#include "support/test.hpp"

namespace weir::model {

inline const policies::kernel& kernel_of(const redis::call_tier& t) { return t.kernel; }

/// Appends what the script of settlements takes of a kernel.
inline void append_constants(std::vector<std::int64_t>& to, const policies::kernel& kernel,
                             std::int64_t cost) {
  std::visit(
      [&]<class Kernel>(const Kernel& k) {
        const auto own = k.arguments(cost);
        BOOST_TEST_REQUIRE(own.size() == Kernel::script_constants);
        to.insert(to.end(), own.begin(), own.end());
      },
      kernel);
}

/// The scripts that answer checks and reservations, under a clock of the test's own.
class joint_scripts {
 public:
  using tier_span = std::span<const redis::call_tier>;
  using key_span = std::span<const std::string>;
  using count_span = std::span<const std::int64_t>;

  explicit joint_scripts(test::redis_client& client) : client_(client) {}

  /// All scripts of a server share the clock.
  void set_clock(std::int64_t now) { any().set_clock(now); }
  void send_clock(std::int64_t now) { any().send_clock(now); }
  std::optional<std::int64_t> requested_ttl(std::string_view key) {
    return any().requested_ttl(key);
  }
  void forget_ttl(std::string_view key) { any().forget_ttl(key); }

  /// The time, and then what the script found of each check, at all tiers. `keys` has one per tier
  /// for each check. It takes the common path, if there is one and `full` is not set.
  std::vector<std::int64_t> run(tier_span tiers, key_span keys, count_span counts, bool full,
                                bool may_share_keys = false) {
    send(tiers, keys, counts, full, may_share_keys);
    return read(tiers, keys.size() / tiers.size());
  }

  /// The same for reservations: what redis::read_found() says.
  std::vector<std::int64_t> reserve(tier_span tiers, key_span keys, count_span counts,
                                    std::int64_t max_wait, bool full, bool may_share_keys = false) {
    send(tiers, keys, counts, full, may_share_keys, max_wait);
    return read(tiers, keys.size() / tiers.size(), counts, true);
  }

  /// The two halves of run(), for pipelining.
  void send(tier_span tiers, key_span keys, count_span counts, bool full, bool may_share_keys,
            std::optional<std::int64_t> max_wait = {}) {
    const redis::kernel_list list = list_of(tiers, max_wait.has_value(), full);
    const std::size_t checks = keys.size() / tiers.size();
    std::vector<std::string> by_tier;
    for (std::size_t t = 0; t < tiers.size(); ++t) {
      for (std::size_t i = 0; i < checks; ++i) by_tier.push_back(keys[i * tiers.size() + t]);
    }
    std::string packed[1];
    redis::pack_argument(packed[0], tiers, list.has_common_path, may_share_keys,
                         max_wait.value_or(-1));
    harness_of(list).send_run(by_tier, packed, counts);
  }
  std::vector<std::int64_t> read(tier_span tiers, std::size_t checks, count_span counts = {},
                                 bool reserves = false) {
    std::vector<redis::call_key> asked(checks);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      asked[i].count = i < counts.size() ? static_cast<std::uint32_t>(counts[i]) : 1;
    }
    std::vector<std::int64_t> found;
    const redis::reply_value& reply = client_.read_view().root();
    if (reply.type != redis::reply_type::bulk_string ||
        !redis::read_found(tiers, asked, reserves, reply.text, found)) {
      throw std::runtime_error("the script answers " + std::string(reply.text));
    }
    return found;
  }

  static redis::kernel_list list_of(tier_span tiers, bool reserves, bool full = false) {
    redis::kernel_list list = redis::kernel_list_of(tiers, reserves, kernel_of);
    if (full) list.make_general();
    return list;
  }

  /// Makes its own scripts, because the process makes only some.
  test::script_harness& harness_of(const redis::kernel_list& list) {
    for (auto& [of, harness] : made_) {
      if (of == list) return harness;
    }
    return made_.emplace_back(list, test::script_harness(client_, redis::make_script(list).text))
        .second;
  }

 private:
  test::script_harness& any() {
    if (made_.empty()) harness_of(redis::list_of_script(redis::bucket_in_parts));
    return made_.front().second;
  }

  test::redis_client& client_;
  std::deque<std::pair<redis::kernel_list, test::script_harness>> made_;
};

}  // namespace weir::model
