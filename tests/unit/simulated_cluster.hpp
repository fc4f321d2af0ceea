#pragma once

#include "redis/topology/cluster_core.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"
#include "unit/simulated_node.hpp"
#include "wire.hpp"

namespace weir::redis::test {

using namespace std::chrono_literals;
using weir::test::moment;

/// The client's end of a connection to a node.
class simulated_link final : public cluster_node,
                             public weir::test::wire_of<connection_core, redis_options> {
 public:
  using time = cluster_node::time;

  simulated_link(const redis_options& all, const redis_address& at, int node, cluster_core::index i,
                 moment& now, std::function<void(simulated_link&)> act)
      : wire_of(&now, with_address(all, at), 1), node(node), index(i), act_(std::move(act)) {
    settles_at_once = false;
    core.on_time(now);
  }

  void start(detail::check& c) override { core.submit(c, now); }
  void pump() override { act_(*this); }

  const int node;
  const cluster_core::index index;

 private:
  static redis_options with_address(redis_options o, const redis_address& at) {
    o.host = at.host;
    o.port = at.port;
    return o;
  }
  void with_core(const std::function<void(connection_core&, time)>& f) override {
    const bool was_open = !core.is_closing();
    const std::size_t pending = core.line().pending();
    f(core, now);
    if (was_open && core.is_closing()) BOOST_TEST_REQUIRE(pending == 0u);
  }
  void collect() override {}  // the cluster does

  const std::function<void(simulated_link&)> act_;
};

/// A cluster_core, its connections, and nodes, some of which have no slots at first.
class simulated_cluster {
 public:
  static constexpr int nodes = 5, first_masters = 3;

  explicit simulated_cluster(std::uint64_t seed)
      : random(seed),
        options(make_options()),
        core(
            options,
            [this](const redis_address& at,
                   cluster_core::index i) -> std::shared_ptr<cluster_node> {
              const int server = at.host[1] - '0';
              links.push_back(std::make_shared<simulated_link>(
                  options, at, server, i, now, [this](simulated_link& l) { pump(l); }));
              links.back()->server = &servers[static_cast<std::size_t>(server)];
              return links.back();
            },
            static_cast<std::uint32_t>(seed)) {
    for (int i = 0; i < nodes; ++i) {
      servers[static_cast<std::size_t>(i)].number = i;
      servers[static_cast<std::size_t>(i)].all = &all;
      for (std::size_t s = 0; s < slot_count; ++s) {
        servers[static_cast<std::size_t>(i)].view[s] = static_cast<std::uint16_t>(
            s * first_masters / slot_count);
      }
    }
    core.open(now);
  }
  ~simulated_cluster() {
    std::vector<std::shared_ptr<cluster_node>> all;
    core.abandon(all).clear();
    for (auto& l : links) l->core.abandon().clear();
  }

  static redis_options make_options() {
    redis_options o;
    o.cluster_seeds = {{"n0", 7000}, {"n4", 7000}};
    o.timeout = 20h;  // far beyond what a call may seem to take when the time leaps
    o.breaker_failures = 0;
    o.silence_timeout = 1h;
    o.ping_interval = 1h;
    return o;
  }

  fake_check& submit(const weir::test::core_ptr& limiter, std::string_view subject) {
    const std::int64_t cost = ++submitted;
    fake_check& c = checks.emplace_back(limiter, subject, cost);
    std::string key;
    limiter->append_key(key, subject);
    all[cost] = {.check = &c, .key = key};
    const auto to = core.submit(c, now);
    if (to != nullptr) to->start(c);
    collect(core.take_done());
    return c;
  }

  void collect(detail::check_list&& done) {
    while (!done.empty()) {
      detail::check& c = done.front();
      done.pop_front();
      c.finish(detail::delivery::dispatch);
    }
  }

  /// Lets the core of a connection act, once, and tells the cluster.
  void pump(simulated_link& l) {
    const auto alive = find(l);
    take_done(l);
    const bool wrote = l.writing.has_value();
    l.act();
    if (!wrote && l.writing) note_sent(l);
    take_done(l);
    if (l.core.has_news()) core.on_node_event(l.index, l, now);
    collect(core.take_done());
  }

  /// One event of a connection. False if nothing is under way.
  bool step(simulated_link& l) {
    const auto alive = find(l);
    if (l.is_stopped() && !l.coming_back) return false;
    l.how = how ? *how : weir::test::manner{.eager = random.one_in(2)};
    if (!servers[static_cast<std::size_t>(l.node)].is_up && l.is_up()) {
      l.writing && !l.how.eager ? l.written(false, 0) : l.hang_up();
    } else if (l.proceed()) {
    } else if (l.core.has_actions() || l.core.has_news() || l.core.has_done()) {
      pump(l);  // as if the strand had been woken
    } else {
      return false;
    }
    return true;
  }

  void cut(simulated_link& l) {
    if (!l.opening && !l.coming_back && l.reading) l.hang_up();
  }

  /// Lets the time pass until something wants it.
  void wait() {
    moment next = core.wakeup();
    for (const auto& l : links) next = std::min(next, l->core.wakeup());
    if (next == moment::max()) return;
    now = std::max(now, next);
    core.on_time(now);
    collect(core.take_done());
    // A copy: new connections may come.
    for (const auto& l : std::vector(links)) l->wake();
  }

  bool is_quiet() const {
    return std::all_of(checks.begin(), checks.end(), [](const auto& c) { return c.finished > 0; });
  }

  weir::test::random_source random;
  std::optional<weir::test::manner> how;  // none: replies and writes come in a random order
  moment now{1000h};
  redis_options options;
  std::vector<std::shared_ptr<simulated_link>> links;
  cluster_core core;
  std::array<simulated_node, nodes> servers;
  std::deque<fake_check> checks;
  deeds all;
  std::int64_t submitted = 0;

 private:
  std::shared_ptr<simulated_link> find(simulated_link& l) {
    for (const auto& one : links) {
      if (one.get() == &l) return one;
    }
    return nullptr;
  }

  void take_done(simulated_link& l) {
    auto done = l.core.take_done();
    if (done.empty()) return;
    core.finished(done, now);
    collect(std::move(done));
  }

  /// No check may be sent while an earlier one of its key waits. If that one waits because of ASK,
  /// its keys are at another node, so this one will be sent there, too, behind it.
  void note_sent(simulated_link& l) {
    weir::test::command_reader reader;
    reader.feed(*l.writing);
    while (auto words = reader.next()) {
      weir::test::name_script(*words);
      if (words->front() != "EVALSHA") continue;
      const auto [keys, cost] = simulated_node::take_apart(*words);
      asked_check& d = all.at(cost);
      BOOST_TEST_REQUIRE(!d.is_under_way());
      for (const auto& [earlier, other] : all) {
        if (earlier >= cost) break;
        if (other.key != d.key || other.check->finished > 0 || other.is_under_way()) continue;
        if (other.has_asked) continue;
        BOOST_TEST_REQUIRE(false, cost << " is sent before " << earlier << " of " << d.key);
      }
      d.go_to(asked_check::place::write);
      d.was_written = true;
      l.aboard.push_back(&d);
    }
  }
};

}  // namespace weir::redis::test
