// A whole session fed with arbitrary bytes and events, and with well-formed replies to what it
// wrote: every check ends exactly once, the core never asks for two things of a kind at once, a
// server that is well again is found, and in the end nothing is left. The server may be a node of a
// cluster.
#include <array>
#include <bit>
#include <cstdlib>
#include <deque>
#include <utility>

#include "fuzz_wire.hpp"
#include "redis/connection_core.hpp"
#include "session_server.hpp"
#include "support/fake_check.hpp"

namespace {

using namespace std::chrono_literals;
using weir::detail::check_kind;
using weir::detail::lease_act;
using weir::fuzz::require;
using weir::fuzz::server;
using weir::redis::connection_core;
using weir::test::fake_check;
using weir::test::make_core;

struct driver final : weir::test::wire_of<connection_core, weir::redis_options> {
  explicit driver(weir::redis_options o) : wire_of(nullptr, std::move(o), 1) {
    settles_at_once = false;
  }

  weir::fuzz::server peer;
  std::deque<fake_check> checks;
  std::uint32_t order = 0;
  bool asks = false;  // in a cluster: what comes back goes out behind ASKING

  void collect() override {
    if (opening && !is_known_) peer.accept();
    is_known_ = opening;
    if (writing && !std::exchange(is_noticed, true)) peer.read(*writing);
    hear();
    wire_of::collect();
  }
  /// What the core of a cluster would do that has this node only.
  void hear() {
    if (!core.has_news()) return;
    core.take_news();
    core.line().take_map();
    std::vector<weir::redis::pipeline::redirected_checks> redirected;
    core.line().take_redirected(redirected);
    weir::detail::check_list held;
    for (auto& r : redirected) held.splice(held.end(), r.checks);
    core.line().take_unsent([](const weir::detail::check&) { return true; }, held);
    held.sort([](const auto& a, const auto& b) { return a.flight.order < b.flight.order; });
    for (weir::detail::check& c : held) {
      if (asks) c.route.value |= weir::detail::cluster_route::asks;
    }
    core.line().proceed();
    core.line().resume(std::move(held), now);
  }
  void submit(fake_check& c) {
    c.check().flight.order = ++order;  // a cluster gives it
    core.submit(c, now);
  }
  void receive(std::string_view bytes) {
    if (reading) received(bytes.substr(0, core.room().size()));
  }

 private:
  bool is_known_ = false;  // the attempt
};

constexpr weir::fixed_window three_in_ten{.limit = 3, .window = 10s};
const weir::limiter_options together{.group = "g"};

const weir::test::core_ptr limiters[] = {
    make_core("f", three_in_ten),
    make_core("l", weir::sliding_log{.limit = 3, .window = 10s}),
    make_core("w", weir::sliding_window{.limit = 3, .window = 10s}),
    make_core("m", weir::gcra{.rate = weir::per_second(3), .burst = 3}),
    // The keys of the first: equal rules, and others.
    make_core("f", three_in_ten),
    make_core("f", weir::fixed_window{.limit = 5, .window = 10s}),
    make_core("t", weir::tiers(weir::gcra{.rate = weir::per_second(3), .burst = 3}, three_in_ten)),
    make_core("f", weir::tiers(three_in_ten, weir::sliding_log{.limit = 9, .window = 1min})),
    std::make_shared<weir::detail::limiter_spec>(
        std::make_shared<weir::test::null_store>(), "gate",
        std::vector<weir::policies::kernel>{weir::policies::lease_set(2, 10'000'000, 1 << 20)},
        weir::limiter_options{}),
};

/// Which can be asked together, each for a subject of its own.
const weir::test::core_ptr companions[] = {
    make_core("a", three_in_ten, together),
    make_core("b", weir::tiers(weir::sliding_window{.limit = 3, .window = 10s}, three_in_ten),
              together),
    make_core("c", weir::token_bucket{.capacity = 3, .refill = weir::per_second(3)}, together),
    make_core("d", weir::sliding_log{.limit = 3, .window = 10s}, together),
};

const std::string hello_replies = "%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n";

constexpr std::string_view refusals[] = {
    "-NOSCRIPT No matching script.\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-BUSY Redis is busy running a script.\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
    "-ERR something else\r\n",
    // What only a node of a cluster answers:
    "-MOVED 1 h:1\r\n",
    "-ASK 1 h:2\r\n",
    "-TRYAGAIN x\r\n",
    "-CLUSTERDOWN x\r\n",
};

constexpr std::size_t plain_refusals = std::size(refusals) - 4;

std::string_view subject_of(std::uint8_t how) { return std::string_view("abc").substr(how % 3, 1); }

weir::test::fake_request kind_of(std::uint8_t how, const weir::detail::limiter_spec& of) {
  if (of.resource == "gate") {
    return how % 3 == 0 ? lease_act::enter : how % 3 == 1 ? lease_act::renew : lease_act::leave;
  }
  return how >= 250                    ? check_kind::reset
         : how >= 230                  ? check_kind::settle
         : how >= 215 && of.can_settle ? check_kind::acquire
         : how >= 200                  ? check_kind::fetch
                                       : check_kind::record;
}

weir::redis_options options_of(std::uint8_t how) {
  weir::redis_options o;
  if (how & 1) o.password = "p";
  if (how & 2) o.username = "u";
  if (how & 4) o.database = 3;
  if (how & 8) o.max_keys_per_call = 2;
  if (how & 16) o.max_pending = 4;
  if (how & 32) o.breaker_failures = 1;
  if ((how & 128) && o.database == 0) o.cluster_seeds = {{"h", 1}};
  return o;
}

/// The further limiters that a joint check asks: those behind the first, as many as the input says.
std::vector<weir::detail::term> further_of(std::size_t first, std::uint8_t how) {
  std::vector<weir::detail::term> further;
  for (std::size_t i = first + 1; i < std::size(companions) && how % 4 != 0; ++i, how /= 4) {
    further.push_back({companions[i], weir::detail::short_text(subject_of(how)), 1 + how % 2});
  }
  return further;
}

/// From now on all goes well, except that what is under way may be stuck: all of it, or the write.
/// In the end there is a connection that serves, also then.
void recover(driver& d, bool stuck, bool only_write) {
  fake_check* fresh = nullptr;
  for (int step = 0; step < 3000; ++step) {
    if (fresh == nullptr || fresh->finished > 0) {
      if (fresh != nullptr && !fresh->ec) return;
      fresh = &d.checks.emplace_back(limiters[0], "fresh", 1, check_kind::record, 10s);
      d.submit(*fresh);
      d.pump();
    }
    if (d.coming_back) d.settle();
    stuck = stuck && (d.opening || d.reading || d.writing);
    const bool silent = stuck && !only_write;
    if (d.opening && !silent) {
      d.opened(weir::error{});
    } else if (d.writing && !stuck) {
      d.write_succeeds();
    } else if (d.reading && !d.peer.due.empty() && !silent) {
      d.receive(d.peer.answer_all(true, 0));
    } else {
      d.now = std::max(d.now, d.core.wakeup());
      d.on_time();
    }
    d.pump();
  }
  require(false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::input in(data, size);
  const std::uint8_t mode = in.byte();
  const std::uint8_t end = in.byte();
  driver d(options_of(mode));
  const bool is_plain = mode < 64;  // bit 6 is free; bit 7: a node of a cluster
  bool closed = false;
  d.wake();
  for (int step = 0; step < 2000 && !in.empty(); ++step) {
    const std::uint8_t what = in.byte();
    switch (what >= 252 ? 18 : what % 18) {
      case 0:
      case 1: {
        const std::uint8_t how = in.byte();
        const auto& core = limiters[how % (std::size(limiters) - (is_plain ? 1 : 0))];
        auto& c = d.checks.emplace_back(core, subject_of(how), 1 + how % 2, kind_of(how, *core),
                                        1ms * (1 + how));
        if (c.kind == check_kind::acquire) {
          weir::detail::as<weir::detail::acquire_request>(c).max_wait = 1ms * (how % 4);
        }
        if (c.kind == check_kind::settle) {
          weir::detail::as<weir::detail::settle_request>(c).id = how;
          if (how >= 240) c.check().units *= -1;  // charges it
        }
        d.submit(c);
        break;
      }
      case 2:
        if (!d.checks.empty()) {
          const std::uint8_t how = in.byte();
          auto& c = d.checks[how % d.checks.size()];
          using weir::detail::cancel_scope;
          if (c.finished == 0) {
            d.core.cancel(c, how < 128 ? cancel_scope::any : cancel_scope::only_unsent);
          }
        }
        break;
      case 3:
        if (d.opening) {
          const std::uint8_t how = in.byte();
          d.opened(how < 200   ? weir::error{}
                   : how < 220 ? weir::error::closed_by_peer
                   : how < 240 ? weir::error::tls_failed
                               : weir::error::host_unreachable);
        }
        break;
      case 4:
      case 5:
        if (d.writing) {
          const std::size_t n = d.writing->size();
          const std::uint8_t how = in.byte();
          d.written(how < 220, how < 220 ? n : n * how / 256);
        }
        break;
      case 6:
        d.receive(d.peer.is_asked_for_scripts() ? server::known_scripts(d.peer.due.front(), 1)
                                                : hello_replies);
        break;
      case 7:
      case 8:
        d.receive(in.bytes(in.byte()));
        break;
      case 9:
        if (d.reading) d.received_nothing();
        break;
      case 10:
        d.now += 1ms * in.byte();
        d.on_time();
        break;
      case 11:
        if (const std::uint8_t how = in.byte(); how == 255) {
          d.core.close(d.now), d.core.stop_when_idle(), closed = true;
        } else if (how >= 252) {
          how == 254   ? d.core.relocate(d.now)
          : how == 253 ? d.core.line().ask_map()
                       : static_cast<void>(d.asks = !d.asks);
        }
        break;
      case 12: {
        const std::uint8_t how = in.byte();
        const std::size_t first = how % 3;
        auto& c = d.checks.emplace_back(companions[first], subject_of(how), 1 + how % 2,
                                        how >= 200                 ? check_kind::fetch
                                        : how >= 150 && first == 2 ? check_kind::acquire
                                                                   : check_kind::record,
                                        1ms * (1 + how), further_of(first, in.byte()));
        d.submit(c);
        break;
      }
      case 13:
        if (d.reading) d.receive(d.peer.answer_all(false, 0));
        break;
      case 14:
        if (d.reading) d.receive(d.peer.answer_all(true, 0));
        break;
      case 15: {
        const int value = static_cast<int>(in.byte()) - 1;  // -1: the key holds something else
        if (d.reading) d.receive(d.peer.answer(true, value));
        break;
      }
      case 16: {
        const std::uint8_t how = in.byte();
        if (!d.reading || d.peer.due.empty()) break;
        d.peer.due.pop_front();
        d.receive(refusals[how % (is_plain ? plain_refusals : std::size(refusals))]);
        break;
      }
      case 17:
        d.receive(">2\r\n+invalidate\r\n*0\r\n");
        break;
      case 18:
        if (d.reading) d.receive(d.peer.answer_plain(in));
        break;
    }
    d.pump();
    for (const auto& c : d.checks) require(c.finished <= 1);
  }
  if (end % 2 == 1 && !closed) recover(d, end % 4 == 3, end % 8 == 7);
  d.core.close(d.now);
  d.core.stop_when_idle();
  // What still gives back is not waited for any longer; a timer that is late puts this off once.
  for (int i = 0; i < 2; ++i) {
    d.now += d.options.timeout;
    d.wake();
  }
  d.settle();
  require(d.core.current() == connection_core::state::stopped);
  for (const auto& c : d.checks) require(c.finished == 1);
  require(d.core.line().pending() == 0);
  return 0;
}
