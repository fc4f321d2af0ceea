#pragma once

#include "redis/topology/cluster_core.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"
#include "unit/simulated_node.hpp"

namespace weir::redis::test {

using namespace std::chrono_literals;
using moment = cluster_core::time;

/// The client's end of a connection to a node: a connection_core whose I/O ends when the test says
/// so.
class simulated_link final : public cluster_node {
 public:
  simulated_link(const redis_options& all, const redis_address& at, int server,
                 cluster_core::index i, moment& now)
      : server(server),
        index(i),
        now_(now),
        options_([&] {
          redis_options o = all;
          o.host = at.host;
          o.port = at.port;
          return o;
        }()),
        core(options_, 1) {
    core.on_time(now_);
  }

  void start(detail::check& c) override { core.submit(c, now_); }

  const int server;
  const cluster_core::index index;

 private:
  void with_core(const std::function<void(connection_core&, time)>& f) override {
    const bool was_open = !core.is_closing();
    const std::size_t pending = core.line().pending();
    f(core, now_);
    if (was_open && core.is_closing()) BOOST_TEST_REQUIRE(pending == 0u);
  }

  moment& now_;
  const redis_options options_;

 public:
  connection_core core;
  bool opening = false, reading = false, closing = false;
  bool is_silent = false;  // no reply comes any more
  std::optional<std::string> writing;
  std::size_t read_by_server = 0;
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
              links.push_back(std::make_shared<simulated_link>(options, at, server, i, now));
              return links.back();
            },
            static_cast<std::uint32_t>(seed)) {
    for (int i = 0; i < nodes; ++i) {
      servers[static_cast<std::size_t>(i)].number = i;
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
    all[cost] = {.key = key, .check = &c};
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
    const auto a = l.core.next(now);
    if (a.open) l.opening = true;
    if (a.read) {
      l.reading = true;
      l.core.room();
    }
    if (!a.write.empty()) {
      l.writing = std::string(a.write);
      l.read_by_server = 0;
      note_sent(*l.writing);
    }
    if (a.close) l.closing = true;
    take_done(l);
    if (l.core.has_news()) core.on_node_event(l.index, l, now);
    collect(core.take_done());
  }

  /// One event of a connection. False if nothing is under way.
  bool step(simulated_link& l) {
    const auto alive = find(l);
    if (l.core.current() == connection_core::state::stopped && !l.closing) return false;
    simulated_node& s = servers[static_cast<std::size_t>(l.server)];
    if (l.closing) {
      if (l.opening) {
        l.opening = false;
        l.core.opened(error::host_unreachable, now);
      } else if (l.writing) {
        end_write(l, false);
      } else if (l.reading) {
        end_read(l);
      } else {
        l.closing = false;
      }
      pump(l);
      return true;
    }
    if (l.opening) {
      l.opening = false;
      l.is_silent = false;
      const bool accepts = s.is_up && s.refuses_connects == 0;
      if (s.refuses_connects > 0) --s.refuses_connects;
      if (accepts) s.accept();
      l.core.opened(accepts ? error{} : error::connection_refused, now);
    } else if (l.writing && random.one_in(2)) {
      if (s.is_up) s.read(std::string_view(*l.writing).substr(l.read_by_server), all);
      if (s.is_up) l.read_by_server = l.writing->size();
      end_write(l, s.is_up);
    } else if (l.reading && !s.replies.empty() && s.is_up && !l.is_silent) {
      const simulated_node::reply r = s.replies.front();
      s.replies.pop_front();
      if (r.whose != 0) leave(all.at(r.whose));
      if (r.bytes.starts_with("-ASK")) all.at(r.whose).has_asked = true;
      hand_over(l, r.bytes);
    } else if (l.reading && !s.is_up) {
      end_read(l);
    } else if (l.core.has_actions() || l.core.has_news() || l.core.has_done()) {
      // as if the strand had been woken
    } else {
      return l.writing.has_value();
    }
    pump(l);
    return true;
  }

  void cut(simulated_link& l) {
    if (l.opening || l.closing || !l.reading) return;
    servers[static_cast<std::size_t>(l.server)].replies.clear();
    end_read(l);
    pump(l);
  }
  /// These bytes come to the client, and no other of that connection.
  void deliver_last(simulated_link& l, const std::string& bytes) {
    servers[static_cast<std::size_t>(l.server)].replies.clear();
    l.is_silent = true;
    hand_over(l, bytes);
    pump(l);
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
    for (const auto& l : std::vector(links)) {
      l->core.on_time(now);
      pump(*l);
    }
  }

  bool is_quiet() const {
    return std::all_of(checks.begin(), checks.end(), [](const auto& c) { return c.finished > 0; });
  }

  weir::test::random_source random;
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
  void note_sent(const std::string& bytes) {
    weir::test::command_reader reader;
    reader.feed(bytes);
    while (auto words = reader.next()) {
      weir::test::name_script(*words);
      if (words->front() != "EVALSHA") continue;
      const auto [keys, cost] = simulated_node::take_apart(*words);
      deed& d = all.at(cost);
      BOOST_TEST_REQUIRE(!d.is_under_way);
      for (const auto& [earlier, other] : all) {
        if (earlier >= cost) break;
        if (other.key != d.key || other.check->finished > 0 || other.is_under_way) continue;
        if (other.has_asked) continue;
        BOOST_TEST_REQUIRE(false, cost << " is sent before " << earlier << " of " << d.key);
      }
      d.is_under_way = true;
    }
  }
  void hand_over(simulated_link& l, const std::string& bytes) {
    const auto room = l.core.room();
    BOOST_TEST_REQUIRE(bytes.size() <= room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    l.reading = false;
    l.core.received(true, bytes.size(), now);
  }
  void end_write(simulated_link& l, bool ok) {
    if (!ok) unsend(*l.writing);
    l.writing.reset();
    l.core.written(ok, l.read_by_server, now);
  }
  /// It is under way no more; of a check that has ended, how it was then stays known.
  static void leave(deed& d) {
    if (d.check->finished == 0) d.is_under_way = false;
  }
  /// What was not written whole is not under way.
  void unsend(const std::string& bytes) {
    weir::test::command_reader reader;
    reader.feed(bytes);
    while (auto words = reader.next()) {
      weir::test::name_script(*words);
      if (words->front() != "EVALSHA") continue;
      leave(all.at(simulated_node::take_apart(*words).second));
    }
  }
  void end_read(simulated_link& l) {
    l.reading = false;
    l.core.received(false, 0, now);
  }
};

}  // namespace weir::redis::test
