// The user of the installed library, as small as it gets.
#include <weir/weir.hpp>

int main() {
  // Compiled code must link, not only headers be found: functions, and the templates that the
  // library has instantiated.
  weir::local_limiter local(weir::fixed_window{.limit = 1, .window = std::chrono::hours{1}});
  weir::local_keyed_limiter<weir::tiers> keyed(
      weir::tiers{weir::gcra{.rate = weir::per_second(1), .burst = 1}}, {.max_keys = 1});
  const bool counts = local.allowed() && !local.allowed() && keyed.allowed("a");
  return counts && weir::rate::parse("100/s") == weir::per_second(100) ? 0 : 1;
}
