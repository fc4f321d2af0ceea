// One call through a Redis store, whose functions bench/walk.sh counts: `walk record`, `acquire`
// (it goes at once) or `wait` (it has to wait). WEIR_REDIS_URL names the server.
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;

void call(boost::asio::io_context& io, const weir::limiter& l, bool acquires) {
  bool is_done = false;
  const auto told = [&](weir::error_code ec, const weir::decision& d) {
    is_done = true;
    if (ec || !d.allowed) std::cerr << "failed: " << ec.message() << '\n', std::exit(1);
  };
  if (acquires) {
    l.acquire("a", {.max_wait = 1s}, told);
  } else {
    l.record("a", told);
  }
  while (!is_done) io.run_one();
}

}  // namespace

/// The tool counts what runs inside this function.
void walked(boost::asio::io_context& io, const weir::limiter& l, bool acquires) {
  call(io, l, acquires);
}

int main(int, char** arguments) {
  const std::string_view what = arguments[1];
  boost::asio::io_context io;
  const weir::store store = weir::make_redis_store(
      io.get_executor(), weir::parse_redis_url(std::getenv("WEIR_REDIS_URL")));
  const std::int64_t room = what == "wait" ? 1 : 1000;
  const weir::limiter l(store, "walk", weir::token_bucket{.capacity = room, .refill = {20, 1s}});
  for (int i = 0; i < 20; ++i) call(io, l, what != "record");
  walked(io, l, what != "record");
}
