// A whole session fed with arbitrary bytes and events: every check ends exactly once, the core never asks for two things
// of a kind at once, and in the end nothing is left.
#include <deque>
#include <optional>

#include "fuzz_input.hpp"
#include "net/session_core.hpp"
#include "support/fake_check.hpp"

namespace {

using namespace std::chrono_literals;
using weir::fuzz::require;
using weir::net::session_core;
using weir::test::fake_check;

struct driver {
  weir::redis_options options;
  session_core core{options, 1};
  std::deque<fake_check> checks;
  session_core::time now{1000h};
  bool opening = false;
  bool reading = false;
  std::optional<std::size_t> writing;

  void pump() {
    for (;;) {
      const auto a = core.next(now);
      if (a.open) {
        require(!opening && !reading && !writing);
        opening = true;
      }
      if (a.read) {
        require(!reading);
        reading = true;
        core.room();
      }
      if (!a.write.empty()) {
        require(!writing);
        writing = a.write.size();
      }
      collect();
      if (!a.open && !a.read && !a.close && a.write.empty()) return;
    }
  }
  void collect() {
    auto done = core.take_done();
    while (!done.empty()) {
      auto& c = done.front();
      done.pop_front();
      c.finish(weir::detail::delivery::dispatch);
    }
  }
};

const weir::test::core_ptr limiters[] = {
    weir::test::make_core("f", weir::fixed_window{.limit = 3, .window = 10s}),
    weir::test::make_core("l", weir::sliding_log{.limit = 3, .window = 10s}),
    weir::test::make_core("w", weir::sliding_window{.limit = 3, .window = 10s}),
    weir::test::make_core("m", weir::gcra{.rate = weir::per_second(3), .burst = 3}),
};

const std::string greeting = [] {
  std::string all = "%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n";
  for (std::size_t i = 0; i < weir::redis::script_count; ++i) all += "$1\r\na\r\n";
  return all;
}();

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::input in(data, size);
  driver d;
  const auto receive = [&](std::string_view bytes) {
    if (!d.reading) return;
    const auto room = d.core.room();
    bytes = bytes.substr(0, room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    d.reading = false;
    d.core.received(true, bytes.size(), d.now);
  };
  d.core.on_time(d.now);
  d.pump();
  for (int step = 0; step < 2000 && !in.empty(); ++step) {
    const std::uint8_t what = in.byte();
    switch (what % 12) {
      case 0:
      case 1: {
        const std::uint8_t how = in.byte();
        auto& c = d.checks.emplace_back(
            limiters[how % 4], std::string(1, static_cast<char>('a' + how % 3)), 1 + how % 2,
            how >= 250   ? weir::detail::check_kind::reset
            : how >= 200 ? weir::detail::check_kind::fetch
                         : weir::detail::check_kind::record,
            1ms * (1 + how));
        d.core.submit(c, d.now);
        break;
      }
      case 2:
        if (!d.checks.empty()) {
          auto& c = d.checks[in.byte() % d.checks.size()];
          if (c.finished == 0) d.core.cancel(c, weir::detail::cancel_scope::any);
        }
        break;
      case 3:
        if (d.opening) {
          d.opening = false;
          d.core.opened(in.byte() < 200 ? weir::error{} : weir::error::server_error, d.now);
        }
        break;
      case 4:
      case 5:
        if (d.writing) {
          const std::size_t n = *d.writing;
          d.writing.reset();
          const std::uint8_t how = in.byte();
          d.core.written(how < 220, how < 220 ? n : n * how / 256, d.now);
        }
        break;
      case 6:
        receive(greeting);
        break;
      case 7:
      case 8:
        receive(in.bytes(in.byte()));
        break;
      case 9:
        if (d.reading) {
          d.reading = false;
          d.core.received(false, 0, d.now);
        }
        break;
      case 10:
        d.now += 1ms * in.byte();
        d.core.on_time(d.now);
        break;
      case 11:
        if (in.byte() == 255) d.core.close();
        break;
    }
    d.pump();
    for (const auto& c : d.checks) require(c.finished <= 1);
  }
  // Everything under way comes back; whatever waits meets its deadline.
  for (int i = 0; i < 4; ++i) {
    if (i == 0) d.core.close();
    d.pump();
    if (d.opening) d.opening = false, d.core.opened(weir::error::server_error, d.now);
    if (d.writing) d.writing.reset(), d.core.written(false, 0, d.now);
    if (d.reading) d.reading = false, d.core.received(false, 0, d.now);
    d.pump();
  }
  require(d.core.current() == session_core::state::stopped);
  for (const auto& c : d.checks) require(c.finished == 1);
  require(d.core.line().pending() == 0);
  return 0;
}
