// Several limits on one subject: a vendor allows 10 calls in 5 s together with 60 in an hour. All
// must allow a call; if one refuses it, none counts it. The same without a store, for one process.
#include "../example.hpp"

namespace {

using namespace std::chrono_literals;
using examples::expect;

const weir::tiers vendor_allows{weir::sliding_log{10, 5s}, weir::fixed_window{60, 1h}};

boost::asio::awaitable<void> example(weir::store store) {
  weir::limiter vendor{store, "tiers-example", vendor_allows};
  co_await vendor.reset("account-42");  // an earlier run may have counted here
  int sent = 0;
  weir::decision d;
  while ((d = co_await vendor.record("account-42")).allowed) ++sent;
  std::cout << sent << " calls, then tier " << d.tier << " refuses\n";
  expect(sent == 10 && d.tier == 0, "the short limit is reached first");

  weir::local_limiter alone{vendor_allows};
  for (sent = 0; alone.allowed();) ++sent;
  expect(sent == 10, "the same in one process");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }
