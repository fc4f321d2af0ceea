#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake_memcached.hpp"
#include "memcached/connection_core.hpp"
#include "support/fake_check.hpp"
#include "wire.hpp"

namespace weir::memcached::test {

using weir::test::core_ptr;
using weir::test::fake_check;
using time = connection_core::time;

inline constexpr time start{std::chrono::hours{1000}};

/// A connection_core with a wire to a fake server. The test decides when bytes travel.
class client final : public weir::test::wire_of<connection_core, memcached_options>,
                     private weir::test::server_end {
 public:
  client(fake_memcached& server, const memcached_options& options, std::uint32_t seed = 1)
      : wire_of(nullptr, options, seed), server_(server) {
    now = start + std::chrono::microseconds(server.running);
    wire::server = this;
  }

  using wire::is_up;

  std::int64_t clock_offset = 0;  // from the server's clock, in microseconds
  bool refuses_connections = false;

  std::int64_t clock() override {
    const std::int64_t running = std::chrono::duration_cast<std::chrono::microseconds>(now - start)
                                     .count();
    server_.running = std::max(server_.running, running);
    return server_.started * 1'000'000 + clock_offset + running;
  }

  void submit(fake_check& c) {
    std::string key;
    c.check().limiter->append_subject_key(key, c.check().subject.view());
    own_.insert(&c);
    core.submit(c, key, now);
    pump();
  }
  void cancel(detail::check& c, detail::cancel_scope scope = detail::cancel_scope::any) override {
    if (own_.contains(&fake_check::of(c))) wire_of::cancel(c, scope);
  }

  // The events. Each is false if it cannot happen now.

  bool connect() {
    if (!opening) return false;
    opened(accept());
    return true;
  }
  /// Moves so many bytes of the write to the server, and reports its end.
  bool send(std::size_t bytes = std::string::npos) {
    if (!writing) return false;
    const std::string_view piece = writing->substr(read_by_server, bytes);
    to_server_ += piece;
    read_by_server += piece.size();
    if (read_by_server == writing->size()) written(true, read_by_server);
    return true;
  }
  bool serve(std::size_t most = std::string::npos) {
    clock();
    const std::size_t before = to_server_.size();
    for (std::string said; most > 0; --most, said.clear()) {
      const bool would_refuse = !server_.refuses.empty();
      server_.serve(to_server_, said, 1);
      if (would_refuse && server_.refuses.empty()) turns_away = turns_away || turns_away_then;
      if (said.empty()) break;
      replies.push_back({said, {}, true});
    }
    return to_server_.size() < before;
  }
  bool receive(std::size_t bytes = std::size_t{16} * 1024) {
    if (!reading || replies.empty()) return false;
    std::string all;
    for (; !replies.empty(); replies.pop_front()) all += replies.front().bytes;
    const std::size_t n = std::min({bytes, all.size(), std::size_t{16} * 1024});
    if (n < all.size()) replies.push_back({all.substr(n), {}, true});
    received(all.substr(0, n));
    return true;
  }
  /// The server closes. What it has received, it runs.
  bool cut() {
    if (!reading) return false;
    serve();
    hang_up();
    return true;
  }
  /// These bytes come in place of what is on its way.
  void say(const std::string& bytes) {
    replies.clear();
    received(bytes);
  }
  bool pass_time(std::chrono::microseconds by) {
    const time end = now + by;
    do {
      now = std::max(now, std::min(end, core.wakeup()));
      wire::wake();
    } while (now < end);
    return true;
  }
  /// To the next alarm, if it is not far.
  bool wake() {
    const time when = core.wakeup();
    if (when == time::max() || when > now + std::chrono::seconds{5}) return false;
    wait();
    return true;
  }

  /// One event of a good network; false if nothing happens any more.
  bool step() {
    return serve() || proceed() ||
           ((core.line().pending() > 0 || core.current() != connection_core::state::ready) &&
            wake());
  }
  void settle() {
    for (int i = 0; i < 100'000 && step(); ++i) {
    }
  }

 private:
  error accept() override {
    end();
    return refuses_connections ? error::connection_refused : error{};
  }
  void read(std::string_view bytes) override {
    to_server_ += bytes;
    serve();
  }

  void end() override {
    to_server_.clear();
    server_end::end();
  }

  fake_memcached& server_;
  std::set<fake_check*> own_;  // submitted here
  std::string to_server_;
};

/// Many checks of one limiter, and what they were told.
class callers {
 public:
  fake_check& add(const core_ptr& core, std::string_view subject,
                  weir::test::fake_request kind = detail::check_kind::record,
                  std::int64_t number = 1, std::chrono::microseconds timeout = {}) {
    return all_.emplace_back(core, subject, number, kind, timeout);
  }
  std::size_t size() const { return all_.size(); }
  template <class Predicate>
  std::int64_t count(Predicate&& p) const {
    std::int64_t n = 0;
    for (const fake_check& c : all_) n += p(c) ? 1 : 0;
    return n;
  }
  std::int64_t allowed() const {
    return count([](const fake_check& c) { return c.finished && !c.ec && c.answer.allowed; });
  }
  std::int64_t refused() const {
    return count([](const fake_check& c) { return c.finished && !c.ec && !c.answer.allowed; });
  }
  std::int64_t failed(const error_code& e) const {
    return count([&](const fake_check& c) { return c.ec == e; });
  }
  /// Those of which the caller cannot know whether they counted.
  std::int64_t unknown() const {
    return count(
        [](const fake_check& c) { return c.ec.failed() && c.ec != condition::not_counted; });
  }
  bool all_finished_once() const {
    return count([](const fake_check& c) { return c.finished != 1; }) == 0;
  }
  std::list<fake_check>& all() { return all_; }

 private:
  std::list<fake_check> all_;
};

inline memcached_options plain_options() {
  memcached_options o;
  o.timeout = std::chrono::seconds{3};
  o.breaker_failures = 0;
  o.backoff_min = o.backoff_max = std::chrono::milliseconds{5};
  return o;
}

/// A server, and what the tests of a connection ask of it.
struct core_fixture {
  fake_memcached server;
  memcached_options options = plain_options();
  core_ptr limit_3 = weir::test::make_core(
      "r", weir::fixed_window{.limit = 3, .window = std::chrono::hours{24}});
  callers checks;

  /// How many units the server's state has.
  std::int64_t used(const core_ptr& core, std::string_view subject) {
    std::string key;
    core->append_subject_key(key, subject);
    const auto found = server.items.find(key);
    if (found == server.items.end()) return 0;
    subject_value value;
    BOOST_TEST_REQUIRE((value.decode(found->second.value, 0) == error{}));
    const auto& kernel = std::get<weir::policies::fixed_window>(core->tiers.front());
    auto* const tier = value.find(core->tier_name(0), core->tiers.front());
    return kernel
        .fetch(std::get<weir::policies::fixed_window::state>(tier->state), 1'790'000'100'000'000, 1)
        .used;
  }
};

}  // namespace weir::memcached::test
