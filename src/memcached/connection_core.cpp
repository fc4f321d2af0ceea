#include "memcached/connection_core.hpp"

#include <charconv>
#include <optional>
#include <utility>

#include "memcached/meta_writer.hpp"

namespace weir::memcached {
namespace {

pipeline::options pipeline_options(const memcached_options& o) {
  return {.max_pending = std::max<std::size_t>(1, o.max_pending),
          .max_value = o.max_value_size,
          .timeout = o.timeout,
          .breaker_failures = o.breaker_failures,
          .breaker_pause = o.breaker_pause,
          .max_clock_skew = o.max_clock_skew};
}

/// The number behind a name in a line of stats; nothing if the line has another name.
std::optional<std::int64_t> number_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || !line.substr(name.size()).starts_with(' ')) return {};
  line.remove_prefix(name.size() + 1);
  std::int64_t value = 0;
  const auto [stop, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (code != std::errc{} || stop != line.data() + line.size() || value < 0) return {};
  return value;
}

/// The largest value that fits an item, with its key and the server's own data.
std::size_t value_in_item(std::int64_t item_size) {
  return static_cast<std::size_t>(item_size - std::min<std::int64_t>(item_size / 2, 1024));
}

}  // namespace

connection_core::connection_core(const memcached_options& options, std::uint32_t seed)
    : options_(options),
      pipeline_(pipeline_options(options), seed),
      backoff_(options.backoff_min, options.backoff_max, seed),
      reader_(options.max_value_size) {
  write_noop(greeting_);
  write_settings(greeting_);
  write_stats(greeting_);
}

detail::check_list connection_core::abandon() {
  state_ = state::stopped;
  closed_ = stopping_ = true;
  return pipeline_.abandon();
}

bool connection_core::close(time now) {
  if (std::exchange(closed_, true)) return false;
  pipeline_.close();
  give_up_ = now + options_.timeout;
  return true;
}

void connection_core::stop() {
  stopping_ = true;
  pipeline_.end();
  open_wanted_ = false;
  alarm_ = time::max();
  close_wanted_ = true;
  state_ = state::draining;
}

bool connection_core::has_actions() const noexcept {
  return open_wanted_ || close_wanted_ || (is_closing() && may_stop_ && pipeline_.is_idle()) ||
         (state_ == state::greeting && !writing_ && greeting_wanted_) ||
         (state_ == state::ready && !writing_ && pipeline_.wants_write());
}

connection_core::actions connection_core::next(time now) {
  actions a;
  if (is_closing() && may_stop_ && pipeline_.is_idle()) stop();
  if (close_wanted_) {
    close_wanted_ = false;
    a.close = true;
    gone(now);
    return a;
  }
  if (open_wanted_) {
    open_wanted_ = false;
    a.open = opening_ = true;
    a.elsewhere = std::exchange(turned_away_, false);
    return a;
  }
  if (state_ != state::greeting && state_ != state::ready) return a;
  if (!reading_) a.read = reading_ = true;
  if (writing_) return a;
  if (state_ == state::greeting) {
    if (std::exchange(greeting_wanted_, false)) {
      a.write = greeting_;
      greeted_ = now;
    }
  } else {
    if (pipeline_.replies_due() == 0) waiting_since_ = now;
    a.write = pipeline_.next_write(now);
  }
  writing_ = !a.write.empty();
  return a;
}

// ---- without a connection

void connection_core::start_opening(time now) {
  state_ = state::opening;
  open_wanted_ = true;
  alarm_ = now + options_.connect_timeout;
}

void connection_core::opened(error e, time now) {
  opening_ = false;
  if (state_ != state::opening) {  // the attempt was given up before
    if (e != error{}) pipeline_.suspect(e);
    return gone(now);
  }
  if (e != error{}) {
    turned_away_ = true;
    pipeline_.suspect(e);
    return pause(now);
  }
  state_ = state::greeting;
  reader_.clear();
  step_ = step::noop;
  max_value_ = options_.max_value_size;
  told_time_ = false;
  greeting_wanted_ = true;
  heard_ = false;
}

void connection_core::pause(time now) {
  state_ = state::pausing;
  alarm_ = now + backoff_.next();
}

// ---- with a connection

/// Handles one reply of the greeting. False if this is no server of the kind.
bool connection_core::greet(const meta_reply& reply, time now, instant clock) {
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
  } else if (const auto seconds = number_of(reply.text, "time")) {
    if (*seconds > policies::max_exact / 1'000'000) return false;
    told_time_ = true;
    pipeline_.compare_clock(*seconds, clock,
                            std::chrono::duration_cast<std::chrono::microseconds>(now - greeted_),
                            now);
  }
  return true;
}

/// Reads the greeting as far as it has come. False if the connection was given up.
bool connection_core::hear_greeting(time now, instant clock) {
  heard_ = true;
  error_code ec;
  while (const meta_reply* reply = reader_.next(ec)) {
    if (!greet(*reply, now, clock)) {
      lost(error::outcome_unknown, error::not_memcached);
      return false;
    }
    if (step_ != step::over) continue;
    state_ = state::ready;
    was_ready_ = true;
    pipeline_.connected(max_value_);
    last_answer_ = clock_asked_ = now;
    watch(now);
    return true;
  }
  if (ec) lost(error::outcome_unknown, error::not_memcached);
  return !ec;
}

void connection_core::received(bool ok, std::size_t bytes, time now, instant clock) {
  reading_ = false;
  if (state_ == state::draining) return gone(now);
  if (!ok) {
    if (state_ != state::greeting) return ended();
    return lost(error::outcome_unknown, heard_ ? error::not_memcached : error::closed_by_peer);
  }
  reader_.commit(bytes);
  if (state_ == state::greeting && (!hear_greeting(now, clock) || state_ != state::ready)) return;

  const std::size_t due = pipeline_.replies_due();
  const auto stream = pipeline_.consume(reader_, now, clock);
  if (pipeline_.replies_due() < due) last_answer_ = now;
  if (pipeline_.has_served()) backoff_.reset();
  if (stream == pipeline::stream_state::broken) lost(error::protocol_error);
}

void connection_core::written(bool ok, std::size_t bytes, time now) {
  writing_ = false;
  if (state_ == state::draining) {
    sent_ = bytes;
    return gone(now);
  }
  if (!ok) {
    ended();
    sent_ = bytes;
    return;
  }
  pipeline_.write_done();
}

void connection_core::lost(error reason, error suspicion) {
  pipeline_.suspect(suspicion);
  reason_ = reason;
  state_ = state::draining;
  close_wanted_ = true;
  turned_away_ = true;
  alarm_ = time::max();
}

void connection_core::ended() {
  lost(error::outcome_unknown, was_ready_ ? error{} : error::closed_by_peer);
  if (was_ready_) turned_away_ = !pipeline_.has_served();
}

void connection_core::gone(time now) {
  if (opening_ || reading_ || writing_ || close_wanted_) return;
  if (stopping_) {
    state_ = state::stopped;
    return;
  }
  if (was_ready_) {
    was_ready_ = false;
    pipeline_.disconnected(reason_, sent_, now);
  }
  pause(now);
}

// ---- time

void connection_core::watch(time now) {
  constexpr std::chrono::milliseconds often{1000};  // while the clocks differ
  const auto check_clock = pipeline_.is_skewed() ? std::min(often, options_.clock_check_interval)
                                                 : options_.clock_check_interval;
  alarm_ = now + std::min({options_.silence_timeout / 2, options_.ping_interval / 2, check_clock});
  if (now - clock_asked_ < check_clock || options_.max_clock_skew.count() == 0) return;
  clock_asked_ = now;
  pipeline_.ask_clock();
}

void connection_core::on_time(time now) {
  pipeline_.expire(now);
  if (is_closing() && now >= give_up_) return stop();
  if (now < alarm_) return;
  switch (state_) {
    case state::pausing:
      return start_opening(now);
    case state::opening:
    case state::greeting:
      return lost(error::outcome_unknown);
    case state::ready:
      if (pipeline_.replies_due() > 0 || writing_) {
        if (now - std::max(last_answer_, waiting_since_) >= options_.silence_timeout) {
          return lost(error::outcome_unknown);
        }
      } else if (now - last_answer_ >= options_.ping_interval) {
        pipeline_.ping();
      }
      return watch(now);
    case state::draining:
    case state::stopped:
      break;
  }
}

}  // namespace weir::memcached
