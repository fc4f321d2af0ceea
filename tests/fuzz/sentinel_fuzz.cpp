// The search for the master: whatever the Sentinels say and however the connections fail, it starts
// no operation twice, answers each question at most once, and stops when told.
#include <algorithm>
#include <string_view>
#include <utility>

#include "fuzz_wire.hpp"
#include "redis/topology/sentinel_core.hpp"

namespace {

using weir::error;
using weir::fuzz::require;
using weir::redis::sentinel_core;

class player final : public weir::test::wire_of<sentinel_core, weir::redis_options> {
 public:
  explicit player(weir::fuzz::input in) : wire_of(nullptr, two_sentinels(), 1), in_(in) {
    settles_at_once = false;
  }

  void play() {
    while (!in_.empty()) step(in_.byte());
    core.stop();
    pump();
    settle();
    require(is_stopped());
    require(core.wakeup() == sentinel_core::time::max());
  }

 private:
  static weir::redis_options two_sentinels() {
    weir::redis_options o;
    o.sentinel.addresses = {{"s1", 1}, {"s2", 2}};
    return o;
  }

  void step(std::uint8_t what) {
    now += std::chrono::milliseconds(what >> 4);
    const bool is_odd = (what & 8) != 0;
    switch (what % 8) {
      case 0:
        asked_ = true;
        core.ask(is_odd, now);
        break;
      case 1:
        if (opening) opened(is_odd ? error::connection_refused : error{});
        break;
      case 2:
        if (writing) written(!is_odd, 0);
        break;
      case 3:
        receive(reading ? in_.bytes(in_.byte()) : "");
        break;
      case 4:
        receive("%1\r\n+proto\r\n:3\r\n>3\r\n+subscribe\r\n+switch-master\r\n:1\r\n");
        break;
      case 5:
        receive("*2\r\n$1\r\nh\r\n$4\r\n6379\r\n");
        break;
      case 6:
        if (reading && is_odd) received_nothing();
        break;
      default:
        if (core.wakeup() != sentinel_core::time::max()) now = std::max(now, core.wakeup());
        on_time();
        break;
    }
    pump();
    if (coming_back) settle();
  }
  void receive(std::string_view bytes) {
    if (reading) received(bytes.substr(0, core.room().size()));
  }
  void collect() override {
    if (const auto found = core.take_answer()) {
      require(std::exchange(asked_, false));
      require((found->failure == error{}) == (!found->host.empty() && found->port != 0));
    }
    core.take_moved();
  }

  weir::fuzz::input in_;
  bool asked_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  player({data, size}).play();
  return 0;
}
