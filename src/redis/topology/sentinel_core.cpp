#include "redis/topology/sentinel_core.hpp"

#include <algorithm>

#include "redis/handshake.hpp"
#include "redis/resp/error_reply.hpp"
#include "redis/resp/resp_writer.hpp"
#include "text/number.hpp"

namespace weir::redis {
namespace {

constexpr std::size_t longest_host = 255;

/// The error of a Sentinel that does not serve: wrong credentials, or master_unknown for anything
/// else.
error meaning_of(const reply_view& refusal) {
  const error e = classify_error(refusal.root().text);
  const bool is_plain = e == error::authentication_failed || e == error::permission_denied;
  return is_plain ? e : error::master_unknown;
}

}  // namespace

sentinel_core::sentinel_core(const redis_options& options, std::uint32_t seed)
    : options_(options),
      backoff_(options.backoff_min, options.backoff_max, seed),
      reader_({.max_bulk = 4096, .max_line = 4096, .max_values = 1024}) {}

void sentinel_core::ask(bool elsewhere, time now) {
  wanted_ = true;
  answer_.reset();
  tries_ = options_.sentinel.addresses.size();
  if (state_ == state::pausing) {
    start_opening(now);
  } else if (state_ == state::watching) {
    if (elsewhere && options_.sentinel.addresses.size() > 1) return lost(error::master_unknown);
    query(now);
  }
}

std::optional<sentinel_core::answer> sentinel_core::take_answer() {
  return std::exchange(answer_, std::nullopt);
}

void sentinel_core::stop() {
  stopping_ = true;
  wanted_ = false;
  lost(error::store_closed);
}

sentinel_core::actions sentinel_core::next(time now) {
  actions a;
  if (std::exchange(must_close_, false)) {
    a.close = true;
    gone(now);
    return a;
  }
  if (state_ == state::opening && !under_way_.opening) {
    under_way_.opening = true;
    a.open = &options_.sentinel.addresses[at_];
    return a;
  }
  if (state_ != state::asking && state_ != state::watching) return a;
  if (!under_way_.reading) under_way_.reading = a.read = true;
  if (under_way_.writing || staged_.empty()) return a;
  out_.clear();
  out_.swap(staged_);
  under_way_.writing = true;
  a.write = out_;
  return a;
}

// ---- without a connection

void sentinel_core::start_opening(time now) {
  state_ = state::opening;
  until_ = {now + options_.connect_timeout};
}

void sentinel_core::opened(error e, time now) {
  under_way_.opening = false;
  if (state_ != state::opening) return gone(now);
  if (e != error{}) return try_next(e, now);
  greet(now);
}

/// After a Sentinel has failed: opens the next one at once if ask() waits and not all were tried,
/// else after a pause.
void sentinel_core::try_next(error reason, time now) {
  at_ = (at_ + 1) % options_.sentinel.addresses.size();
  if (wanted_ && --tries_ == 0) {
    wanted_ = false;
    answer_.emplace(answer{.failure = reason});
  }
  if (wanted_) return start_opening(now);
  state_ = state::pausing;
  until_ = {now + backoff_.next()};
}

// ---- with a connection

/// Subscribes before it asks, so that a failover after the answer is heard.
void sentinel_core::greet(time now) {
  state_ = state::asking;
  another_since_.reset();
  reader_.clear();
  const redis_sentinel_options& o = options_.sentinel;
  write_hello(staged_, {o.username, o.password}, options_.client_name);
  expect(question::hello, now);
  write_command(staged_, "SUBSCRIBE", "+switch-master");
  expect(question::subscribe, now);
  query(now);
}

void sentinel_core::query(time now) {
  write_command(staged_, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.sentinel.master);
  expect(question::address, now);
}

void sentinel_core::expect(question q, time now) {
  if (due_.empty()) waiting_since_ = now;
  due_.push_back(q);
}

void sentinel_core::received(bool ok, std::size_t bytes, time now) {
  under_way_.reading = false;
  if (state_ == state::draining) return gone(now);
  if (!ok) return lost(error::closed_by_peer);
  reader_.commit(bytes);
  error_code ec;
  while (const reply_view* reply = reader_.next(ec)) {
    on_reply(*reply, now);
    if (state_ == state::draining) return;
  }
  if (ec) lost(error::not_redis);
}

void sentinel_core::written(bool ok, time now) {
  under_way_.writing = false;
  if (state_ == state::draining) return gone(now);
  if (!ok) lost(error::closed_by_peer);
}

void sentinel_core::on_reply(const reply_view& reply, time now) {
  if (reply.is_push()) return on_push(reply);
  if (due_.empty()) return lost(error::not_redis);
  last_reply_ = now;
  until_.was_put_off = false;
  const question q = due_.front();
  due_.pop_front();
  if (reply.is_error()) return lost(meaning_of(reply));
  if (q == question::address) return on_address(reply, now);
  // The reply to SUBSCRIBE is a push.
  if (q == question::subscribe) lost(error::not_redis);
}

void sentinel_core::on_push(const reply_view& push) {
  const auto values = push.values();
  if (values.size() < 3) return;
  if (values[1].text == "subscribe" && !due_.empty() && due_.front() == question::subscribe) {
    due_.pop_front();
  }
  if (values.size() != 4 || values[1].text != "message" || values[2].text != "+switch-master")
    return;
  // "mymaster 10.0.0.1 6379 10.0.0.2 6379"
  const std::string_view text = values[3].text;
  const bool is_ours = text.starts_with(options_.sentinel.master) &&
                       text.substr(options_.sentinel.master.size()).starts_with(' ');
  // The Sentinel that leads a failover names the new master before it announces it. An answer that
  // is due was written after the announcement. Before the first answer, `named_` is empty.
  if (is_ours && !wanted_ && !text.ends_with(named_)) moved_ = true;
}

void sentinel_core::on_address(const reply_view& reply, time now) {
  const auto values = reply.values();
  std::uint16_t port = 0;
  if (values.size() == 3) port = text::read_number<std::uint16_t>(values[2].text).value_or(0);
  // Null if the Sentinel knows no master of this name.
  const bool is_address = port != 0 && !values[1].text.empty() &&
                          values[1].text.size() <= longest_host;
  if (!is_address) return lost(error::master_unknown);
  answer found{.host = std::string(values[1].text), .port = port};
  std::string name = ' ' + found.host + ' ' + std::to_string(port);
  if (std::exchange(wanted_, false)) {
    answer_.emplace(std::move(found));
    named_ = std::move(name);
    another_since_.reset();
  } else if (named_.empty() || name == named_) {
    another_since_.reset();
  } else if (!another_since_) {
    another_since_ = now;  // not enough to move: this Sentinel may not know of a failover yet
  } else if (now - *another_since_ >= sure_after) {
    another_since_.reset();
    moved_ = true;
  }
  if (state_ != state::asking) return;
  state_ = state::watching;
  backoff_.reset();
  watch(now);
}

void sentinel_core::lost(error reason) {
  if (state_ == state::stopped) return;
  reason_ = reason;
  state_ = state::draining;
  must_close_ = true;
  until_ = {};
  due_.clear();
  staged_.clear();
}

/// Ends draining, when the close action was returned and all operations have reported.
void sentinel_core::gone(time now) {
  if (under_way_.any() || must_close_) return;
  if (stopping_) {
    state_ = state::stopped;
    return;
  }
  try_next(reason_, now);
}

// ---- time

void sentinel_core::watch(time now) {
  until_.at = now + std::min(options_.silence_timeout, options_.ping_interval) / 2;
}

void sentinel_core::on_time(time now) {
  if (state_ == state::pausing) {
    if (now >= until_.at) start_opening(now);
    return;
  }
  if (!until_.is_over(now, detail::lateness(until_.at, now), options_.timeout)) return;
  switch (state_) {
    case state::opening:
    case state::asking:
      return lost(error::host_unreachable);
    case state::watching:
      if (!due_.empty()) {
        const auto silence = now - std::max(last_reply_, waiting_since_);
        if (silence >= options_.silence_timeout) return lost(error::host_unreachable);
      } else if (now - last_reply_ >= options_.ping_interval) {
        query(now);  // a PING would not tell that the master has moved
      }
      return watch(now);
    case state::pausing:
    case state::draining:
    case state::stopped:
      break;
  }
}

}  // namespace weir::redis
