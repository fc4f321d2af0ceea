#pragma once

#include <cstdlib>

#include "model/joint_scripts.hpp"
#include "policy/tier_set.hpp"
#include "support/random_source.hpp"
#include "support/redis_server.hpp"
#include "support/test.hpp"

namespace weir::model {

/// Some kernels that are asked together, as the scripts for several tiers take them.
struct tier_script {
  std::vector<policies::kernel> kernels;
  std::vector<std::int64_t> costs;
  std::vector<std::string> keys;

  std::size_t width() const {
    std::size_t sum = 0;
    for (const policies::kernel& k : kernels) {
      sum += std::visit([]<class K>(const K&) { return K::reply_width; }, k);
    }
    return sum;
  }

  static std::int64_t number_of(const policies::kernel& kernel) {
    return policies::kernel_number(kernel.index(), policies::is_leaky(kernel));
  }

  /// What the script of settlements takes. `costs` are what policies::settle_all() takes.
  std::vector<std::int64_t> settlement(std::int64_t remember,
                                       const policies::tickets& known) const {
    std::vector<std::int64_t> to{remember, known.counted,
                                 static_cast<std::int64_t>(kernels.size())};
    std::size_t i = 0;
    policies::each_ticket(
        known, kernels, std::identity(), [&](const auto&, const policies::ticket& t) {
          const policies::kernel& kernel = kernels[i];
          const std::int64_t cost = costs[i++];
          to.push_back(number_of(kernel));
          to.push_back(static_cast<std::int64_t>(policies::act_of(cost)));
          // Endless ones for the script only.
          model::append_constants(to, cost < 0 ? policies::charging(kernel) : kernel,
                                  std::max<std::int64_t>(1, std::abs(cost)));
          if (cost <= 0) return;
          to.push_back(static_cast<std::int64_t>(t.numbers()));
          t.each_number([&](std::int64_t value) { to.push_back(value); });
        });
    return to;
  }

  /// To lower what is left to `costs`.
  std::vector<std::int64_t> lowering() const {
    std::vector<std::int64_t> to{0, 0, static_cast<std::int64_t>(kernels.size())};
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      to.push_back(number_of(kernels[i]));
      to.push_back(static_cast<std::int64_t>(policies::settle_act::lower));
      model::append_constants(to, kernels[i], costs[i]);
    }
    return to;
  }

  /// What the script found, of the next width() fields.
  std::vector<policies::any_replay> restore(std::span<const std::int64_t> fields) const {
    std::vector<policies::any_replay> found(kernels.size());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::visit(
          [&]<class K>(const K&) {
            auto& state = found[i].emplace<typename K::replay>();
            BOOST_REQUIRE(K::restore(fields.first(K::reply_width), state));
            fields = fields.subspan(K::reply_width);
          },
          kernels[i]);
    }
    return found;
  }

  std::vector<std::int64_t> run(test::redis_client& client, test::script_harness& script,
                                const std::vector<std::int64_t>& arguments, std::int64_t checks,
                                std::size_t numbers) const {
    const std::int64_t counts[] = {checks};
    script.send_run(keys, arguments, counts);
    std::vector<std::int64_t> found(numbers);
    const redis::reply_view& reply = client.read_view();
    if (!reply.integers(found)) {
      throw std::runtime_error("the script answers " + std::string(reply.root().text));
    }
    return found;
  }

  std::vector<redis::call_tier> call_tiers() const {
    std::vector<redis::call_tier> asked;
    for (std::size_t i = 0; i < kernels.size(); ++i) asked.push_back({kernels[i], costs[i]});
    return asked;
  }

  /// One of equal requests for a reservation: what the client makes of it, and, if it lies ahead,
  /// the states before it.
  struct reserved {
    decision said;
    std::vector<std::int64_t> found;
  };
  /// Asks for so many reservations, on the common path if there is one and `full` is not set.
  std::vector<reserved> reserve(joint_scripts& scripts, std::int64_t now, std::int64_t checks,
                                std::int64_t max_wait, bool full) const {
    const std::int64_t counts[] = {checks};
    scripts.set_clock(now);
    const auto numbers = scripts.reserve(call_tiers(), keys, counts, max_wait, full);
    BOOST_TEST_REQUIRE(numbers[0] == now);
    auto fields = std::span(numbers).subspan(1);
    const bool at_once = fields[0] == redis::at_once;
    std::vector<policies::any_replay> states;
    std::vector<reserved> all;
    for (std::int64_t i = 0; i < checks; ++i) {
      if (i == 0 || !at_once) states = restore(fields.subspan(1));
      const policies::request_time turn(now, at_once ? now : fields[0]);
      reserved one{policies::reserve_at<policies::any_replay>(tiers(states), turn, max_wait), {}};
      if (turn.when > now) one.found.assign(fields.begin() + 1, fields.begin() + 1 + width());
      all.push_back(std::move(one));
      if (!at_once) fields = fields.subspan(1 + width());
    }
    return all;
  }

  /// What a script of several tiers found: the time, and width() numbers. It takes the common path,
  /// if there is one for these kernels and `full` is not set.
  std::vector<std::int64_t> check(joint_scripts& scripts, std::int64_t checks, bool full) const {
    const std::int64_t counts[] = {checks};
    return scripts.run(call_tiers(), keys, counts, full);
  }

  template <class State>
  std::vector<policies::tier<State>> tiers(std::vector<State>& states) const {
    std::vector<policies::tier<State>> all;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      all.push_back({&kernels[i], &states[i], costs[i]});
    }
    return all;
  }
};

/// A server and its scripts, all under one clock of the test's own. They take the common path, or,
/// at random, the full kernels.
struct script_server {
  explicit script_server(std::uint32_t stream) : random(test::run_seed(), stream) {}

  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};
  joint_scripts scripts{client};
  test::script_harness settlements{client, redis::scripts()[redis::settlement].text};
  test::random_source random;

  using replays = std::vector<policies::any_replay>;

  /// The states that so many checks found.
  replays found_by(const tier_script& asked, std::int64_t now, std::int64_t checks = 1) {
    scripts.set_clock(now);
    const auto numbers = asked.check(scripts, checks, random.one_in(3));
    return asked.restore(std::span(numbers).subspan(1));
  }
  std::vector<tier_script::reserved> reserve(const tier_script& asked, std::int64_t now,
                                             std::int64_t checks, std::int64_t max_wait) {
    return asked.reserve(scripts, now, checks, max_wait, random.one_in(3));
  }

  struct settled {
    bool is_done;
    replays left;
  };
  /// `arguments`: settlement() or lowering(). With a marker, it is done once.
  settled settle(const tier_script& asked, std::int64_t now,
                 const std::vector<std::int64_t>& arguments, const std::string& marker = {}) {
    tier_script sent = asked;
    if (!marker.empty()) sent.keys.push_back(marker);
    settlements.set_clock(now);
    const auto numbers = sent.run(client, settlements, arguments, 1, 2 + asked.width());
    return {numbers[1] == 1, asked.restore(std::span(numbers).subspan(2))};
  }
  settled give_back(const tier_script& asked, std::int64_t now, const policies::tickets& known) {
    return settle(asked, now, asked.settlement(0, known));
  }
};

}  // namespace weir::model
