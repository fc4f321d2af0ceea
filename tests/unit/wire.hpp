#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server_end.hpp"

#ifndef WEIR_TEST_REQUIRE  // a fuzzer has another one
#include <boost/test/unit_test.hpp>
#define WEIR_TEST_REQUIRE(condition) BOOST_TEST_REQUIRE(condition)
#endif

namespace weir::test {

using namespace std::chrono_literals;
using moment = std::chrono::steady_clock::time_point;

/// What may differ while all goes well.
struct manner {
  bool eager = false;  // replies come before their write is reported done
  bool whole = false;  // all replies come in one read, not in one each
  bool late = false;   // what is under way at a close still succeeds
  bool hasty = false;  // deadlines are near
};

enum class write_fate { succeeds, fails, sticks };

/// The client's end of a connection without sockets, of any protocol: what its core has started
/// comes to an end when the test says so.
class wire {
  moment own_now_{1000h};

 public:
  explicit wire(moment* shared = nullptr) : now(shared != nullptr ? *shared : own_now_) {}
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;
  virtual ~wire() = default;

  moment& now;
  server_end* server = nullptr;  // for proceed()
  manner how;
  bool settles_at_once = true;  // what is under way comes back within a close

  // What the core has started.
  bool opening = false, reading = false, coming_back = false;  // the last: after a close
  std::optional<std::string_view> writing;
  int opens = 0, closes = 0;
  bool aborted_open = false, elsewhere = false;
  std::string host;  // the last that was named
  moment poll_until = moment::min();

  // What is wrong with the connection there is.
  bool silent = false;                      // nothing comes to an end any more
  bool stuck = false;                       // the write does not
  bool is_cut = false;                      // after these replies, the connection ends
  std::size_t through = std::string::npos;  // so much of the write gets through
  write_fate after_that = write_fate::succeeds;

  // For the player.
  bool is_noticed = false;  // the write
  bool closed = false, abandoned = false;
  std::set<int> lost;                // the opens that a new connection has to follow
  std::vector<asked_check*> aboard;  // the write

  // The events.
  virtual void opened(error e) = 0;
  virtual void written(bool ok, std::size_t bytes) = 0;
  virtual void received(std::string_view bytes) = 0;
  virtual void received_nothing(error why = error::outcome_unknown) = 0;
  virtual void on_time() = 0;
  virtual moment wakeup() const = 0;
  virtual void pump() = 0;
  // What the callers do.
  virtual void cancel(detail::check& c, detail::cancel_scope scope) = 0;
  virtual void close() = 0;
  virtual void abandon() = 0;

  virtual bool is_greeting() const = 0;
  virtual bool is_stopped() const = 0;
  /// No check is pending.
  virtual bool is_empty() const = 0;
  /// It serves, and no reply is due.
  virtual bool is_at_rest() const = 0;

  bool is_up() const {
    return opens > 0 && !opening && (reading || writing) && !coming_back && !silent;
  }
  bool can_read() const {
    return reading && (!server->replies.empty() || server->hangs_up || is_cut);
  }

  bool has_event() const {
    return coming_back || (!silent && (opening || (writing && !stuck) || can_read()));
  }
  /// Lets the next thing that is under way come to an end. False if nothing can.
  bool proceed() {
    if (coming_back) return come_back(), true;
    if (silent) return false;
    if (opening) return opened(server->accept()), true;
    if (writing && !stuck && !(how.eager && can_read())) return write(), true;
    if (can_read()) return read(), true;
    return false;
  }
  /// Lets the time pass until the core wants something.
  void wait() {
    WEIR_TEST_REQUIRE((wakeup() != moment::max()));
    now = std::max(now, wakeup());
    wake();
  }
  void wake() {
    on_time();
    pump();
  }
  void server_reads(std::size_t up_to) {
    if (up_to <= read_by_server || !server->is_up) return;
    const std::size_t from = std::exchange(read_by_server, up_to);
    server->read(writing->substr(from, up_to - from));
  }
  std::string write_succeeds() {
    WEIR_TEST_REQUIRE(writing.has_value());
    std::string bytes(*writing);
    written(true, bytes.size());
    return bytes;
  }
  /// After a close, all that is under way comes back.
  void settle() {
    if (opening) opened(error::host_unreachable);
    if (writing) written(false, read_by_server);
    if (reading) received_nothing();
  }
  /// The server ends the connection. What it said before does not come.
  void hang_up(error why = error::outcome_unknown) {
    server->replies.clear();
    received_nothing(why);
  }
  /// These bytes come, and nothing else on this connection.
  void say_last(const std::string& bytes) {
    server->replies.clear();
    silent = true;
    received(bytes);
  }

 protected:
  void write() {
    const std::size_t end = std::min(through, writing->size());
    server_reads(end);
    if (after_that == write_fate::sticks) {
      stuck = true;
    } else {
      written(after_that == write_fate::succeeds, end);
    }
  }
  void read() {
    std::string bytes;
    while (!is_cut && !server->replies.empty() && (bytes.empty() || how.whole)) {
      const server_end::reply& r = server->replies.front();
      for (asked_check* a : r.whose) {
        a->go_to(asked_check::place::replied);
        a->has_asked = a->has_asked || r.bytes.starts_with("-ASK");
      }
      bytes += r.bytes;
      server->replies.pop_front();
    }
    bytes.empty() ? received_nothing() : received(bytes);
  }
  /// One of the things that were under way when the core closed the connection.
  void come_back() {
    if (opening) return opened(how.late ? error{} : error::host_unreachable);
    if (reading && (how.eager || !writing)) {
      if (!how.late || server->replies.empty()) return received_nothing();
      return received(std::string(server->replies.front().bytes));
    }
    if (how.late) {
      server_reads(writing->size());
    } else if (!stuck && !silent && !how.eager) {
      server_reads(std::min(through, writing->size()) / 2);
    }
    written(how.late, read_by_server);
  }
  /// Something has come to an end.
  void came() {
    if (coming_back && !opening && !reading && !writing) gone();
  }
  void gone() {
    coming_back = silent = stuck = is_cut = false;
    if (server != nullptr) server->end();
  }

  std::size_t read_by_server = 0;  // of the write
  std::string copy_;               // of what is written
  bool has_paused_ = false;        // since the last attempt
};

template <class Core, class Options>
class wire_of : public wire {
 public:
  using state = typename Core::state;

  template <class... More>
  wire_of(moment* shared, Options o, More&&... more)
      : wire(shared), options(std::move(o)), core(options, std::forward<More>(more)...) {}

  Options options;
  Core core;

  /// Starts what the core wants now. False if it wants nothing.
  bool act() {
    [[maybe_unused]] const bool announced = wants_more();
    const auto a = core.next(now);
    const bool opens_now = static_cast<bool>(a.open);
    const bool acts = opens_now || a.close || !a.write.empty();
    if constexpr (is_life) {
      // Announced in vain: the waiting checks have to wait for a reply.
      WEIR_TEST_REQUIRE((announced ? acts || !core.has_actions() : !acts));
    }
    if constexpr (is_life) {
      poll_until = a.poll_until;
    }
    if (a.close) {
      ++closes;
      WEIR_TEST_REQUIRE((!opens_now && !a.read && a.write.empty()));
      aborted_open = aborted_open || opening;
      coming_back = opening || reading || writing;
      if (!coming_back) gone();
    }
    if (opens_now) {
      WEIR_TEST_REQUIRE((!opening && !reading && !writing));
      opening = true;
      ++opens;
      if constexpr (is_life) {
        WEIR_TEST_REQUIRE((opens == 1 || std::exchange(has_paused_, false)));
        elsewhere = a.elsewhere;
      } else {
        host = a.open->host;
      }
    }
    if (a.read) {
      WEIR_TEST_REQUIRE(!reading);
      reading = true;
      core.room();
    }
    if (!a.write.empty()) {
      WEIR_TEST_REQUIRE(!writing);
      copy_.assign(a.write);
      writing = a.write;
      read_by_server = 0;
    }
    collect();
    if (a.close && settles_at_once) settle();
    return acts || a.read;
  }
  void pump() override {
    while (act() || wants_more()) continue;
  }

  void opened(error e) override {
    WEIR_TEST_REQUIRE(opening);
    opening = false;
    came();
    before_event();
    core.opened(e, now);
    pump();
  }
  void written(bool ok, std::size_t bytes) override {
    WEIR_TEST_REQUIRE(writing.has_value());
    // The bytes belong to the core, and stay until they are written, whatever came in meanwhile.
    WEIR_TEST_REQUIRE((*writing == copy_));
    for (asked_check* a : std::exchange(aboard, {})) {
      // Not all of it has left: the server will not know of it.
      if (a->where == asked_check::place::write) a->go_to(asked_check::place::client);
    }
    writing.reset();
    is_noticed = false;
    through = std::string::npos;
    after_that = write_fate::succeeds;
    came();
    before_event();
    if constexpr (is_life) {
      core.written(ok, bytes, now);
    } else {
      core.written(ok, now);
    }
    pump();
  }
  void received(std::string_view bytes) override {
    WEIR_TEST_REQUIRE(reading);
    const auto room = core.room();
    WEIR_TEST_REQUIRE(bytes.size() <= room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    end_read(true, bytes.size(), error{});
  }
  void received_nothing(error why = error::outcome_unknown) override {
    WEIR_TEST_REQUIRE(reading);
    end_read(false, 0, why);
  }
  void on_time() override {
    has_paused_ = has_paused_ || core.current() == state::pausing;
    core.on_time(now);
  }
  moment wakeup() const override { return core.wakeup(); }

  void cancel([[maybe_unused]] detail::check& c,
              [[maybe_unused]] detail::cancel_scope scope) override {
    if constexpr (is_life) core.cancel(c, scope);
    pump();
  }
  void close() override {
    if constexpr (is_life) {
      core.close(now);
      core.stop_when_idle();
    } else {
      core.stop();
    }
    collect();
  }
  void abandon() override {
    if constexpr (is_life) {
      for (auto left = core.abandon(); !left.empty(); left.pop_front()) {
        left.front().finish(detail::delivery::discard);
      }
    }
  }
  bool is_stopped() const override { return core.current() == state::stopped; }
  bool is_greeting() const override {
    if constexpr (is_life) return core.current() == state::greeting;
    return false;
  }
  bool is_empty() const override {
    if constexpr (is_life) return core.line().pending() == 0;
    return true;
  }
  bool is_at_rest() const override {
    if constexpr (is_life) {
      return core.current() == state::ready && is_empty() && core.line().replies_due() == 0;
    } else {
      return core.current() == state::watching;
    }
  }

 protected:
  static constexpr bool is_life = requires(Core& c) { c.has_actions(); };

  /// Takes what the core has for its owner.
  virtual void collect() {
    if constexpr (is_life) finish_all(core.take_done());
  }
  static void finish_all(detail::check_list done) {
    while (!done.empty()) {
      detail::check& c = done.front();
      done.pop_front();
      c.finish(detail::delivery::dispatch);
    }
  }
  /// The caller's clock, in microseconds.
  virtual std::int64_t clock() { return 0; }

 private:
  bool wants_more() const {
    if constexpr (is_life) return core.has_actions();
    return false;
  }
  void before_event() {
    if constexpr (is_life) core.before_event(now);
  }
  void end_read(bool ok, std::size_t bytes, [[maybe_unused]] error why) {
    reading = false;
    came();
    before_event();
    if constexpr (requires { core.received(ok, bytes, now, why); }) {
      core.received(ok, bytes, now, why);
    } else if constexpr (is_life) {
      core.received(ok, bytes, now, clock());
    } else {
      core.received(ok, bytes, now);
    }
    pump();
  }
};

}  // namespace weir::test
