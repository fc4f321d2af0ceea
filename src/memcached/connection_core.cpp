#include "memcached/connection_core.hpp"

#include <algorithm>
#include <optional>

#include "memcached/meta_writer.hpp"
#include "text/number.hpp"

namespace weir::memcached {
namespace {

/// The number behind a name in a line of stats; nothing if the line has another name.
std::optional<std::int64_t> number_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || !line.substr(name.size()).starts_with(' ')) return {};
  const auto value = text::read_number<std::int64_t>(line.substr(name.size() + 1));
  return value >= 0 ? value : std::nullopt;
}

/// memcached 1.6.0 to 1.6.9 take the length of a value in another form, and run the bytes of a
/// value whose length they did not find as commands.
bool has_old_stores(std::string_view line) {
  constexpr std::string_view series = "version 1.6.";
  if (!line.starts_with(series)) return false;
  const std::string_view patch = line.substr(series.size());
  return patch.find_first_not_of("0123456789") == 1 || patch.size() == 1;
}

/// The largest value that fits an item, with its key and the server's own data.
std::size_t value_in_item(std::int64_t item_size) {
  return static_cast<std::size_t>(item_size - std::min<std::int64_t>(item_size / 2, 1024));
}

}  // namespace

connection_core::connection_core(const memcached_options& options, std::uint32_t seed)
    : connection_life(options, seed, options, seed), reader_(options.max_value_size) {
  write_noop(greeting_);
  write_settings(greeting_);
  write_stats(greeting_);
}

void connection_core::begin_greeting() {
  reader_.clear();
  step_ = step::noop;
  max_value_ = options_.max_value_size;
  told_time_ = false;
}

std::string_view connection_core::write_greeting(time now) {
  greeted_ = now;
  return greeting_;
}

/// Handles one reply of the greeting. False if the server is not a usable memcached.
bool connection_core::read_greeting(const meta_reply& reply, time now, instant clock) {
  using kind = meta_reply::kind;
  if (step_ == step::noop) {
    step_ = step::settings;
    return reply.what == kind::noop;
  }
  if (reply.what == kind::end) {
    step_ = step_ == step::settings ? step::stats : step::over;
    return step_ != step::over || told_time_ || options_.max_clock_skew.count() == 0;
  }
  if (reply.what != kind::stat) return false;
  if (step_ == step::settings) {
    if (reply.text == "cas_enabled no") return false;
    if (const auto size = number_of(reply.text, "item_size_max")) {
      max_value_ = std::min(max_value_, value_in_item(*size));
    }
  } else if (has_old_stores(reply.text)) {
    return false;
  } else if (const auto seconds = number_of(reply.text, "time")) {
    if (*seconds > policies::max_exact / 1'000'000) return false;
    told_time_ = true;
    pipeline_.compare_clock(*seconds, clock,
                            std::chrono::duration_cast<std::chrono::microseconds>(now - greeted_),
                            now);
  }
  return true;
}

/// Reads the greeting as far as it has come. False unless it is complete.
bool connection_core::greet(time now, instant clock) {
  in<greeting>()->heard = true;
  error_code ec;
  while (const meta_reply* reply = reader_.next(ec)) {
    if (!read_greeting(*reply, now, clock)) {
      const bool has_room = reply->text.find("Too many open connections") == reply->text.npos;
      lost(error::outcome_unknown, has_room ? error::not_memcached : error::server_error);
      return false;
    }
    if (step_ != step::over) continue;
    pipeline_.connected(max_value_,
                        std::chrono::duration_cast<std::chrono::microseconds>(now - greeted_));
    clock_asked_ = now;
    become_ready(now);
    return true;
  }
  if (ec) lost(error::outcome_unknown, error::not_memcached);
  return false;
}

void connection_core::received(bool ok, std::size_t bytes, time now, instant clock) {
  if (!has_read(ok, now, error::outcome_unknown, error::not_memcached)) return;
  reader_.commit(bytes);
  if (in<greeting>() != nullptr && !greet(now, clock)) return;
  const auto stream = consume(now, [&] { return pipeline_.consume(reader_, now, clock); });
  if (stream == pipeline::stream_state::broken) lost(error::protocol_error);
}

/// Asks for the server's clock when it is time.
connection_core::duration connection_core::watch(time now) {
  duration check_clock = options_.clock_check_interval;
  if (pipeline_.is_skewed()) check_clock = std::min<duration>(check_clock, std::chrono::seconds{1});
  if (now - clock_asked_ >= check_clock && options_.max_clock_skew.count() != 0) {
    clock_asked_ = now;
    pipeline_.ask_clock();
  }
  return std::min<duration>(
      {options_.silence_timeout / 2, options_.ping_interval / 2, check_clock});
}

}  // namespace weir::memcached
