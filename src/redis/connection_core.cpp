#include "redis/connection_core.hpp"

#include <algorithm>
#include <utility>

#include "redis/error_reply.hpp"

namespace weir::redis {
namespace {

pipeline::options pipeline_options(const redis_options& o) {
  return {.max_pending = std::max<std::size_t>(1, o.max_pending),
          .max_keys_per_call = o.max_keys_per_call,
          .timeout = o.timeout,
          .breaker_failures = o.breaker_failures,
          .breaker_pause = o.breaker_pause,
          .in_cluster = !o.cluster_seeds.empty(),
          .host = o.cluster_seeds.empty() ? std::string() : o.host};
}

}  // namespace

connection_core::connection_core(const redis_options& options, std::uint32_t seed)
    : options_(options),
      login_{options.username, options.password},
      pipeline_(pipeline_options(options)),
      backoff_(options.backoff_min, options.backoff_max, seed),
      reader_(options.cluster_seeds.empty() ? reply_limits{} : slot_map_limits) {}

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
      a.write = handshake_->output();
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
    // The server may only be stuck: checks keep waiting, and get this error at their deadlines.
    if (e != error{}) pipeline_.suspect(e);
    return gone(now);
  }
  if (e != error{}) {
    turned_away_ = true;
    pipeline_.suspect(e);
    if (e == error::tls_failed) pipeline_.refused(e);
    return pause(now);
  }
  greet();
}

void connection_core::greet() {
  state_ = state::greeting;
  handshake_.emplace(options_, login_);
  reader_.clear();
  greeting_wanted_ = true;
  heard_ = false;
}

void connection_core::pause(time now) {
  link_changed_ = true;
  state_ = state::pausing;
  alarm_ = now + backoff_.next();
}

// ---- with a connection

void connection_core::received(bool ok, std::size_t bytes, time now, error why) {
  reading_ = false;
  if (state_ == state::draining) return gone(now);
  if (!ok) {
    if (state_ != state::greeting) return ended();
    // A server at its maxclients sends an error and closes. A server that expects TLS, and a proxy
    // that reaches no server, close without a word.
    return lost(why, heard_ ? handshake_->failure() : error::closed_by_peer);
  }
  reader_.commit(bytes);

  if (state_ == state::greeting) {
    heard_ = true;
    using step = handshake::step;
    error_code ec;
    while (const reply_view* reply = reader_.next(ec)) {
      const step s = handshake_->on_reply(*reply);
      if (s == step::going) continue;
      if (s == step::failed) return lost(handshake_->failure(), handshake_->failure());
      if (s == step::again) {
        greeting_wanted_ = true;
        return;
      }
      state_ = state::ready;
      was_ready_ = link_changed_ = true;
      pipeline_.connected(handshake_->known_scripts(),
                          std::chrono::duration_cast<std::chrono::microseconds>(now - greeted_));
      if (!writing_) handshake_.reset();  // a write in progress still uses its output
      last_answer_ = now;
      watch(now);
      break;
    }
    // No check was sent yet, so checks keep waiting, as for an absent server.
    if (ec) return lost(error::outcome_unknown, error::not_redis);
    if (state_ != state::ready) return;
  }

  const std::size_t due = pipeline_.replies_due();
  const auto stream = pipeline_.consume(reader_, now);
  // Only a whole reply that is due shows that the server serves; bytes and pushes do not.
  if (pipeline_.replies_due() < due) last_answer_ = now;
  if (pipeline_.has_served()) backoff_.reset();
  switch (stream) {
    case pipeline::stream_state::good:
      break;
    case pipeline::stream_state::broken:
      lost(error::protocol_error);
      break;
    case pipeline::stream_state::unwelcome:
      lost(error::outcome_unknown);
      break;
  }
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
  if (state_ == state::ready) handshake_.reset();
  pipeline_.write_done();
}

/// Gives the connection up. In the greeting, the server's own error replaces `reason`; checks that
/// keep waiting get `suspicion` at their deadlines.
void connection_core::lost(error reason, error suspicion) {
  pipeline_.suspect(suspicion);
  reason_ = reason;
  state_ = state::draining;
  close_wanted_ = true;
  turned_away_ = true;
  alarm_ = time::max();
}

/// The server has closed the connection. If it served, it may have restarted: its address is tried
/// first again.
void connection_core::ended() {
  lost(error::outcome_unknown, was_ready_ ? error{} : error::closed_by_peer);
  if (was_ready_) turned_away_ = !pipeline_.has_served();
}

void connection_core::relocate(time now) {
  if (state_ == state::stopped || stopping_) return;
  backoff_.reset();
  if (state_ == state::pausing) {
    alarm_ = now;
  } else if (state_ != state::draining && !(state_ == state::ready && !pipeline_.leave())) {
    lost(error::outcome_unknown);
    turned_away_ = false;
  }
}

/// Ends draining, when the close was handed out and all operations have reported.
void connection_core::gone(time now) {
  if (opening_ || reading_ || writing_ || close_wanted_) return;
  if (stopping_) {
    state_ = state::stopped;
    return;
  }
  if (was_ready_) {
    was_ready_ = false;
    pipeline_.disconnected(reason_, sent_, now);
  } else if (reason_ != error::outcome_unknown && !is_passing(reason_)) {
    pipeline_.refused(reason_);  // waiting would not help
  }
  pause(now);
}

// ---- time

void connection_core::watch(time now) {
  alarm_ = now + std::min(options_.silence_timeout, options_.ping_interval) / 2;
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
      // A write may be stuck although no reply is due: they may all have come before its end was
      // sent.
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

}  // namespace weir::redis
