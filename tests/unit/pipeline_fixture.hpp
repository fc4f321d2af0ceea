#pragma once

#include <charconv>
#include <chrono>

#include "line_options.hpp"
#include "redis/pipeline.hpp"
#include "support/fake_check.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

using namespace std::chrono_literals;
using weir::test::core_ptr;
using weir::test::fake_check;
using weir::test::make_core;
using stream_state = pipeline::stream_state;

inline constexpr std::size_t npos = static_cast<std::size_t>(-1);

inline std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// A pipeline whose bytes the test writes and answers itself.
struct fixture {
  /// A new connection takes a full write at once: most tests are not about how that grows.
  explicit fixture(const line_options& o = {}, std::size_t first = coalescer::max_keys_per_write)
      : line(o, 1, first) {}

  // A fixed window of 3: a reply is now, then start, count and 0 of each key.
  core_ptr core = make_core("r", fixed_window{.limit = 3, .window = 10s});
  std::deque<fake_check> checks;
  pipeline line;
  pipeline::time now{1000h};
  reply_reader reader;
  stream_state last_state = stream_state::good;
  weir::detail::check_list last_done;

  ~fixture() { line.abandon().clear(); }

  fake_check& submit(std::string_view subject, std::int64_t cost = 1,
                     weir::test::fake_request kind = detail::check_kind::record,
                     std::chrono::microseconds timeout = {}) {
    fake_check& c = checks.emplace_back(core, subject, cost, kind, timeout);
    line.submit(c, now);
    return c;
  }
  std::string write() {
    std::string out = line.next_write(now);
    if (!out.empty()) line.write_done();
    return out;
  }
  bool feed(std::string_view bytes) {
    const auto room = reader.prepare(bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    reader.commit(bytes.size());
    last_state = line.consume(reader, now);
    last_done = line.take_done();
    return last_state != stream_state::broken;
  }
  /// Answers all calls that are due: with errors, so that their numbers of keys do not matter.
  void answer_all() {
    while (line.replies_due() > 0) feed("-ERR whatever\r\n");
  }
  /// Answers the calls of this write, which are due: each key was fresh.
  void answer_fresh(std::string_view written) {
    constexpr std::string_view begin = "EVALSHA\r\n$40\r\n";
    for (auto at = written.find(begin); at != npos; at = written.find(begin, at + 1)) {
      // Behind the script's name and a length: the number of keys.
      const auto length = at + begin.size() + 42, number = written.find("\r\n", length) + 2;
      std::size_t keys = 0;
      std::from_chars(written.data() + number, written.data() + written.size(), keys);
      feed(window_reply(std::vector<found_window>(keys, {4'000'000, 0})));
    }
  }
  bool answer(std::int64_t count) { return feed(window_reply({{4'000'000, count}})); }
};

struct connected_fixture : fixture {
  connected_fixture() { line.connected(); }
};

}  // namespace weir::redis::test
