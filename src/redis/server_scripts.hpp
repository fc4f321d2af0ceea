#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "redis/resp/error_reply.hpp"
#include "redis/script/script_call.hpp"
#include "redis/script/scripts.hpp"

namespace weir::redis {

/// Which scripts the server at the end of a connection has, and which calls carry the text of
/// theirs.
class server_scripts {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// How often a check is sent again because its script is missing; the last time, with the text.
  static constexpr std::uint8_t max_resends = 2;

  /// Called for a new connection.
  void reset(const script_set& known) noexcept {
    known_ = known;
    failure_ = {};
    no_texts_before_ = time::min();
  }

  /// Decides whether the call, which is written now, carries the text: it is the first one on this
  /// connection, or the server had not the script when its checks were sent before.
  void prepare(script_call& c, time now) {
    const bool is_last = c.keys.front().checks.front().flight.resends == max_resends;
    c.has_text = c.has_script() && now >= no_texts_before_ && (!known_[c.script] || is_last);
    if (c.has_text) {
      ++texts_[c.script];
      known_.set(c.script);
    }
    c.texts = texts_[c.script];
  }

  /// The server has run the call.
  void ran(const script_call& c) noexcept {
    if (c.has_text) failure_ = {};
  }
  /// The server lacks the call's script. Returns why it does not take the text; zero: it may.
  error_code missing(const script_call& c, time now) noexcept {
    // Unless the text was sent again after this call.
    if (c.texts == texts_[c.script]) known_.reset(c.script);
    return now < no_texts_before_ ? failure_ : error_code();
  }
  /// The server has refused the call. Without EVAL, the next text waits, because it has some
  /// kilobytes.
  void refused(const script_call& c, const error_code& why, time now) noexcept {
    if (!c.has_text || !names_command(why, "EVAL")) return;
    failure_ = why;
    no_texts_before_ = now + text_pause;
  }

 private:
  static constexpr std::chrono::seconds text_pause{1};

  script_set known_;  // scripts that the server has, or whose text was sent
  std::array<std::uint32_t, most_scripts> texts_{};  // texts sent so far, per script
  error_code failure_;                               // why the server has refused EVAL, or zero
  time no_texts_before_ = time::min();
};

}  // namespace weir::redis
