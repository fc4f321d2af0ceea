// The search for the master: whatever the Sentinels say and however the connections fail, it starts
// no operation twice, answers each question at most once, and stops when told.
#include <algorithm>
#include <string>

#include "fuzz_input.hpp"
#include "redis/topology/sentinel_core.hpp"

namespace {

using weir::error;
using weir::fuzz::require;
using weir::redis::sentinel_core;

class player {
 public:
  explicit player(weir::fuzz::input in) : in_(in), core_(options_, 1) {}

  void play() {
    while (!in_.empty()) step(in_.byte());
    core_.stop();
    pump();
    settle();
    require(core_.current() == sentinel_core::state::stopped);
    require(core_.wakeup() == sentinel_core::time::max());
  }

 private:
  static weir::redis_options two_sentinels() {
    weir::redis_options o;
    o.sentinel.addresses = {{"s1", 1}, {"s2", 2}};
    return o;
  }

  void step(std::uint8_t what) {
    now_ += std::chrono::milliseconds(what >> 4);
    switch (what % 8) {
      case 0:
        asked_ = true;
        core_.ask((what & 8) != 0, now_);
        break;
      case 1:
        if (opening_) opened((what & 8) != 0 ? error::connection_refused : error{});
        break;
      case 2:
        if (writing_) written((what & 8) == 0);
        break;
      case 3:
        if (reading_) receive(in_.bytes(in_.byte()));
        break;
      case 4:
        if (reading_) receive("%1\r\n+proto\r\n:3\r\n>3\r\n+subscribe\r\n+switch-master\r\n:1\r\n");
        break;
      case 5:
        if (reading_) receive("*2\r\n$1\r\nh\r\n$4\r\n6379\r\n");
        break;
      case 6:
        if (reading_ && (what & 8) != 0) received_nothing();
        break;
      default:
        if (core_.wakeup() != sentinel_core::time::max()) now_ = std::max(now_, core_.wakeup());
        core_.on_time(now_);
        break;
    }
    pump();
    if (core_.current() == sentinel_core::state::draining) settle();
  }
  void opened(error e) {
    opening_ = false;
    core_.opened(e, now_);
  }
  void written(bool ok) {
    writing_ = false;
    core_.written(ok, now_);
  }
  void receive(std::string_view bytes) {
    const auto room = core_.room();
    const auto n = std::min(bytes.size(), room.size());
    std::copy_n(bytes.begin(), n, room.begin());
    reading_ = false;
    core_.received(true, n, now_);
  }
  void received_nothing() {
    reading_ = false;
    core_.received(false, 0, now_);
  }
  /// After a close, what is under way comes back.
  void settle() {
    if (opening_) opened(error::host_unreachable);
    if (writing_) written(false);
    if (reading_) received_nothing();
    pump();
  }
  void pump() {
    for (;;) {
      const auto a = core_.next(now_);
      if (a.open != nullptr) {
        require(!opening_ && !reading_ && !writing_);
        opening_ = true;
      }
      if (a.read) {
        require(!reading_);
        reading_ = true;
      }
      if (!a.write.empty()) {
        require(!writing_);
        writing_ = true;
      }
      if (const auto found = core_.take_answer()) {
        require(asked_);
        asked_ = false;
        require((found->failure == error{}) == (!found->host.empty() && found->port != 0));
      }
      core_.take_moved();
      if (!a.close && a.open == nullptr && !a.read && a.write.empty()) return;
    }
  }

  weir::fuzz::input in_;
  const weir::redis_options options_ = two_sentinels();
  sentinel_core core_;
  sentinel_core::time now_{std::chrono::hours{1}};
  bool asked_ = false, opening_ = false, reading_ = false, writing_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  player({data, size}).play();
  return 0;
}
