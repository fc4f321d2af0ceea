#include "redis/connection_core.hpp"

#include <algorithm>

#include "redis/resp/error_reply.hpp"

namespace weir::redis {
connection_core::connection_core(const redis_options& options, std::uint32_t seed,
                                 std::size_t first_keys)
    : connection_life(options, seed, options, seed, first_keys),
      login_{options.username, options.password},
      reader_(options.cluster_seeds.empty() ? reply_limits{} : slot_map_limits) {}

void connection_core::begin_greeting() {
  handshake_.emplace(options_, login_);
  reader_.clear();
  is_moving_ = false;
}

std::string_view connection_core::write_greeting(time now) {
  greeted_ = now;
  return handshake_->output();
}

/// Reads the greeting as far as it has come. False unless it is complete.
bool connection_core::greet(time now) {
  using step = handshake::step;
  in<greeting>()->heard = true;
  error_code ec;
  while (const reply_view* reply = reader_.next(ec)) {
    const step s = handshake_->on_reply(*reply);
    if (s == step::going) continue;
    if (s == step::failed) {
      lost(handshake_->failure(), handshake_->failure());
      return false;
    }
    if (s == step::again) {
      in<greeting>()->wrote = false;
      return false;
    }
    link_changed_ = true;
    pipeline_.connected(handshake_->known_scripts(),
                        std::chrono::duration_cast<std::chrono::microseconds>(now - greeted_));
    if (!under_way_.writing) end_greeting();  // a write in progress still uses its output
    become_ready(now);
    return true;
  }
  // No check was sent yet, so all keep waiting, as for an absent server.
  if (ec) lost(error::outcome_unknown, error::not_redis);
  return false;
}

void connection_core::received(bool ok, std::size_t bytes, time now, error why) {
  // A server at its maxclients sends an error and closes. A server that expects TLS, and a proxy
  // that reaches no server, close without a word.
  if (!has_read(ok, now, why, handshake_ ? handshake_->failure() : error{})) return;
  reader_.commit(bytes);
  if (in<greeting>() != nullptr && !greet(now)) return;
  switch (consume(now, [&] { return pipeline_.consume(reader_, now); })) {
    case pipeline::stream_state::good:
      break;
    case pipeline::stream_state::broken:
      return lost(error::protocol_error);
    case pipeline::stream_state::unwelcome:
      lost(error::outcome_unknown, is_moving_ ? error{} : pipeline_.trouble(),
           is_moving_ ? error::read_only : pipeline_.farewell());
      tries_another_ = !is_moving_;
      return;
  }
}

void connection_core::relocate(time now) {
  if (in<stopped>() != nullptr) return;
  backoff_.reset();
  if (in<pausing>() != nullptr) {
    // All processes of a fleet may learn of the move together: each waits for a random time.
    until_.at = std::min(until_.at, now + backoff_.next());
  } else if (in<ready>() != nullptr && !pipeline_.leave()) {
    is_moving_ = true;
  } else if (in<draining>() == nullptr) {
    lost(error::outcome_unknown, error{}, error::read_only);
    tries_another_ = false;
  }
}

/// Fails the checks that wait, if waiting would not help.
void connection_core::turned_down(error reason) {
  if (reason != error::outcome_unknown && !is_passing(reason)) pipeline_.refused(reason);
}

}  // namespace weir::redis
