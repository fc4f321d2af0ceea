// Callbacks instead of coroutines: any completion token of Asio's will do, a function among them.
// It gets the error code and the decision.
//
//     callbacks [redis://127.0.0.1:6379]
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <utility>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

// Three checks, one after the other.
class client {
 public:
  explicit client(const weir::store& store)
      : store_(store),
        limiter_(store, "callbacks-example", weir::fixed_window{.limit = 2, .window = 1min}) {}

  void start() {
    // The callback is never called inside record() or reset() themselves: no lock held here can be
    // in its way.
    limiter_.reset("alice", [this](weir::error_code ec) {
      expect(!ec, "reset");
      check();
    });
  }

  int allowed() const { return allowed_; }
  int refused() const { return refused_; }

 private:
  void check() {
    limiter_.record("alice", {.cost = 1, .timeout = 2s},
                    [this](weir::error_code ec, weir::decision d) { on_decision(ec, d); });
  }

  void on_decision(weir::error_code ec, weir::decision d) {
    // Three outcomes: an error says nothing about the limit.
    if (ec) {
      std::cout << "error: " << ec.message() << "\n";
      store_.close();
      return;
    }
    std::cout << (d.allowed ? "allowed" : "refused") << ", " << d.remaining << " left\n";
    ++(d.allowed ? allowed_ : refused_);
    if (allowed_ + refused_ < 3) {
      check();
    } else {
      store_.close();  // lets run() return
    }
  }

  weir::store store_;
  weir::limiter limiter_;
  int allowed_ = 0;
  int refused_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  asio::io_context context;
  client c(weir::open_store(context, examples::store_url(argc, argv)));
  c.start();
  context.run();  // until the client has closed its store
  expect(c.allowed() == 2 && c.refused() == 1, "two pass, the third does not");
} catch (const std::exception& e) {
  return examples::failed(e);
}
