#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "link/connection_life.hpp"
#include "memcached/meta_reader.hpp"
#include "memcached/pipeline.hpp"
#include "weir/memcached_options.hpp"

namespace weir::memcached {

/// The life of a connection to one server. Its greeting is `mn`, `stats settings` and `stats`, and
/// the caller's clock comes with each event that may decide a check.
class connection_core final
    : public detail::connection_life<connection_core, pipeline, memcached_options> {
 public:
  using instant = policies::instant;

  connection_core(const memcached_options& options, std::uint32_t seed);

  // For callers; see pipeline.
  void submit(detail::check& c, std::string_view key, time now) { pipeline_.submit(c, key, now); }

  // For the driver.
  std::span<char> room() { return reader_.prepare(read_size); }
  void received(bool ok, std::size_t bytes, time now, instant clock);

 private:
  friend connection_life;
  static constexpr std::size_t read_size = 16 * 1024;

  enum class step : std::uint8_t { noop, settings, stats, over };

  void begin_greeting();
  std::string_view write_greeting(time now);
  void end_greeting() noexcept {}
  bool read_greeting(const meta_reply& reply, time now, instant clock);
  bool greet(time now, instant clock);
  void turned_down(error) noexcept {}
  void paused() noexcept {}
  duration watch(time now);

  meta_reader reader_;
  std::string greeting_;
  step step_ = step::noop;
  std::size_t max_value_ = 0;  // that the server takes
  bool told_time_ = false;
  time greeted_{};      // greeting: when it was written
  time clock_asked_{};  // ready: when the server's clock was asked for last
};

}  // namespace weir::memcached
