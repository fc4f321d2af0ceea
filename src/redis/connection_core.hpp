#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "link/connection_life.hpp"
#include "redis/handshake.hpp"
#include "redis/pipeline.hpp"
#include "redis/resp/resp_reader.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// The life of a connection to a Redis server: its greeting is the Redis handshake.
class connection_core final
    : public detail::connection_life<connection_core, pipeline, redis_options> {
 public:
  connection_core(const redis_options& options, std::uint32_t seed, std::size_t first_keys = 1);

  // For callers; see pipeline.
  void submit(detail::check& c, time now) { pipeline_.submit(c, now); }

  // For a Redis Cluster.
  /// The cluster calls only the functions that pipeline has for a cluster.
  pipeline& line() noexcept { return pipeline_; }
  using connection_life::line;
  /// True if a connection came or went since take_news(), or the pipeline has news.
  bool has_news() const noexcept { return link_changed_ || pipeline_.has_news(); }
  /// What has become of the connection. `trouble`: why there is none; zero: unknown.
  struct link_news {
    bool is_new;  ///< something has changed
    bool is_ready;
    error trouble;
    bool is_lasting;  ///< reconnecting will probably not help
  };
  link_news take_news() noexcept {
    return {std::exchange(link_changed_, false), in<ready>() != nullptr, pipeline_.trouble(),
            pipeline_.is_refused()};
  }

  // For the driver.
  /// From now on, logs in with these instead of the options' user and password.
  void log_in_with(redis_credentials login) { login_ = std::move(login); }
  std::span<char> room() { return reader_.prepare(read_size); }
  /// Called when the master has moved: sends nothing more, and opens another connection when all
  /// that was sent is answered, or the server falls silent.
  void relocate(time now);
  /// Reports the end of a read. `why`, if not ok: tls_failed for a TLS alert, which a server may
  /// send after the handshake, when it rejects the client's certificate.
  void received(bool ok, std::size_t bytes, time now, error why = error::outcome_unknown);

 private:
  friend connection_life;
  static constexpr std::size_t read_size = 16 * 1024;

  void begin_greeting();
  std::string_view write_greeting(time now);
  void end_greeting() { handshake_.reset(); }
  bool greet(time now);
  void turned_down(error reason);
  void paused() noexcept { link_changed_ = true; }
  duration watch(time) const noexcept {
    return std::min(options_.silence_timeout, options_.ping_interval) / 2;
  }

  redis_credentials login_;
  std::optional<handshake> handshake_;
  reply_reader reader_;
  time greeted_{};  // greeting: when the last of it was written
  bool link_changed_ = false;
  bool is_moving_ = false;  // relocate() waits until no reply is due
};

}  // namespace weir::redis
