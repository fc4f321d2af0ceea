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

namespace weir::memcached::test {

using weir::test::core_ptr;
using weir::test::fake_check;
using time = connection_core::time;

inline constexpr time start{std::chrono::hours{1000}};

/// A connection_core with a wire to a fake server. The test decides when bytes travel.
class client {
 public:
  client(fake_memcached& server, const memcached_options& options, std::uint32_t seed = 1)
      : core(options, seed),
        now(start + std::chrono::microseconds(server.running)),
        server_(server) {}

  connection_core core;
  time now;
  std::int64_t clock_offset = 0;  // from the server's clock, in microseconds
  bool refuses_connections = false;
  bool is_silent = false;  // no reply comes any more on this connection
  int opens = 0;

  std::int64_t clock() const {
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
    act();
  }
  void cancel(fake_check& c, detail::cancel_scope scope = detail::cancel_scope::any) {
    if (!own_.contains(&c)) return;
    core.cancel(c, scope);
    act();
  }

  /// Starts what the core wants.
  void act() {
    for (;;) {
      const auto a = core.next(now);
      if (a.close) {
        connected_ = false;
        if (opening_) {
          opening_ = false;
          core.opened(error::connection_refused, now);
        }
        if (reading_) {
          reading_ = false;
          core.received(false, 0, now, clock());
        }
        if (writing_) {
          writing_ = false;
          core.written(false, passed_, now);
        }
        to_server_.clear();
        to_client_.clear();
        continue;
      }
      if (a.open) {
        ++opens;
        opening_ = true;
      }
      if (a.read) {
        reading_ = true;
        core.room();
      }
      if (!a.write.empty()) {
        writing_ = true;
        write_.assign(a.write);
        passed_ = 0;
      }
      if (!a.open && !a.read && a.write.empty()) break;
    }
    for (detail::check_list done = core.take_done(); !done.empty();) {
      detail::check& c = done.front();
      done.pop_front();
      c.finish(detail::delivery::dispatch);
    }
  }

  // The events. Each is false if it cannot happen now.

  bool connect() {
    if (!opening_) return false;
    opening_ = false;
    connected_ = !refuses_connections;
    is_silent = false;
    core.before_event(now);
    core.opened(connected_ ? error{} : error::connection_refused, now);
    act();
    return true;
  }
  /// Moves so many bytes of the write to the server, and reports its end.
  bool send(std::size_t bytes = static_cast<std::size_t>(-1)) {
    if (!writing_ || !connected_) return false;
    const std::string_view piece = std::string_view(write_).substr(passed_, bytes);
    to_server_ += piece;
    passed_ += piece.size();
    if (passed_ == write_.size()) {
      writing_ = false;
      core.before_event(now);
      core.written(true, passed_, now);
      act();
    }
    return true;
  }
  bool serve(std::size_t most = static_cast<std::size_t>(-1)) {
    if (to_server_.empty() || !connected_) return false;
    clock();
    const std::size_t before = to_server_.size();
    server_.serve(to_server_, to_client_, most);
    return to_server_.size() < before;
  }
  bool receive(std::size_t bytes = static_cast<std::size_t>(-1)) {
    if (!reading_ || to_client_.empty() || is_silent) return false;
    const std::size_t n = std::min({bytes, to_client_.size(), std::size_t{16} * 1024});
    reading_ = false;
    const auto room = core.room();
    std::copy_n(to_client_.begin(), n, room.begin());
    to_client_.erase(0, n);
    core.before_event(now);
    core.received(true, n, now, clock());
    act();
    return true;
  }
  /// In place of what is on its way come these bytes, if `halfway` behind half of that; then
  /// nothing else on this connection.
  bool garble(const std::string& bytes, bool halfway) {
    if (!reading_ || to_client_.empty() || is_silent) return false;
    to_client_ = (halfway ? to_client_.substr(0, to_client_.size() / 2) : std::string()) + bytes;
    while (receive()) {
    }
    if (!bytes.empty()) BOOST_TEST_REQUIRE(!connected_);
    is_silent = connected_;
    return true;
  }
  /// The server closes. What it has received, it runs.
  bool cut() {
    if (!connected_) return false;
    serve();
    connected_ = false;
    if (reading_) {
      reading_ = false;
      core.received(false, 0, now, clock());
      act();
    }
    if (writing_) {
      writing_ = false;
      core.written(false, passed_, now);
      act();
    }
    to_server_.clear();
    to_client_.clear();
    return true;
  }
  bool pass_time(std::chrono::microseconds by) {
    const time end = now + by;
    do {
      now = std::max(now, std::min(end, core.wakeup()));
      core.on_time(now);
      act();
    } while (now < end);
    return true;
  }
  /// To the next alarm, if it is not far.
  bool wake() {
    const time when = core.wakeup();
    if (when == time::max() || when > now + std::chrono::seconds{5}) return false;
    now = std::max(now, when);
    core.on_time(now);
    act();
    return true;
  }

  /// One event of a good network; false if nothing happens any more.
  bool step() {
    return connect() || send() || serve() || receive() ||
           ((core.line().pending() > 0 || core.current() != connection_core::state::ready) &&
            wake());
  }
  void settle() {
    for (int i = 0; i < 100'000 && step(); ++i) {
    }
  }

 private:
  fake_memcached& server_;
  std::set<fake_check*> own_;  // submitted here
  bool connected_ = false;
  bool opening_ = false, reading_ = false, writing_ = false;
  std::string write_;
  std::size_t passed_ = 0;
  std::string to_server_, to_client_;
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
