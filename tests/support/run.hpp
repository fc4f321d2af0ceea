#pragma once

#include <boost/asio.hpp>
#include <exception>

#include "support/test.hpp"
#include "weir/weir.hpp"

namespace weir::test {

namespace asio = boost::asio;

/// Turns a hang into a failure. Nothing is expected to come near it.
inline constexpr std::chrono::seconds watchdog{60};

/// Runs the context until nothing is left to do.
inline void run_out(asio::io_context& io) {
  io.restart();
  io.run_for(watchdog);
  BOOST_REQUIRE_MESSAGE(io.stopped(), "the context still has work after a minute");
}

/// The same, past exceptions from handlers; returns how many there were.
inline int run_out_past_exceptions(asio::io_context& io) {
  for (int thrown = 0;; ++thrown) {
    try {
      run_out(io);
      return thrown;
    } catch (const std::runtime_error&) {
    }
  }
}

/// Runs the context until `done` says so, and no further.
template <class Predicate>
void run_until(asio::io_context& io, Predicate&& done) {
  io.restart();
  const auto limit = std::chrono::steady_clock::now() + watchdog;
  while (!done()) {
    BOOST_REQUIRE_MESSAGE(io.run_one_until(limit) == 1,
                          "nothing more happens, or a minute is over");
  }
}

/// Runs a coroutine (a function object that returns awaitable<void>) to its end; what it throws
/// comes out here.
template <class Coroutine>
void run(asio::io_context& io, Coroutine&& body) {
  bool done = false;
  std::exception_ptr failure;
  asio::co_spawn(io, std::forward<Coroutine>(body), [&](std::exception_ptr e) {
    failure = e;
    done = true;
  });
  run_until(io, [&] { return done; });
  if (failure) std::rethrow_exception(failure);
}

/// Something that coroutines of one thread wait for.
class flag {
 public:
  explicit flag(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  void set() {
    set_ = true;
    timer_.cancel();
  }
  asio::awaitable<void> wait() {
    while (!set_) {
      boost::system::error_code ignored;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

 private:
  asio::steady_timer timer_;
  bool set_ = false;
};

/// What one caller was told.
struct outcome {
  error_code ec;
  joint_decision d;
  int times = 0;  // how often the handler ran
};

/// Calls made at once, and what became of them in the order of the calls. Copies of the handlers
/// share it, so that it may go before they run.
class crowd {
 public:
  auto caller() {
    state_->outcomes.emplace_back();
    return [state = state_, i = state_->outcomes.size() - 1](error_code ec, joint_decision d = {}) {
      outcome& o = state->outcomes[i];
      o.ec = ec;
      o.d = d;
      if (++o.times == 1) ++state->answered;
    };
  }
  std::size_t size() const { return state_->outcomes.size(); }
  std::size_t answered() const { return state_->answered; }
  bool complete() const { return answered() == size(); }
  const outcome& operator[](std::size_t i) const { return state_->outcomes.at(i); }
  auto begin() const { return state_->outcomes.begin(); }
  auto end() const { return state_->outcomes.end(); }

  std::size_t allowed() const {
    return count([](const outcome& o) { return !o.ec && o.d.allowed; });
  }
  std::size_t refused() const {
    return count([](const outcome& o) { return o.times && !o.ec && !o.d.allowed; });
  }
  std::size_t failed(error e) const {
    return count([&](const outcome& o) { return o.ec == e; });
  }
  template <class Predicate>
  std::size_t count(Predicate&& p) const {
    std::size_t n = 0;
    for (const outcome& o : *this) n += p(o) ? 1 : 0;
    return n;
  }

 private:
  struct state {
    std::vector<outcome> outcomes;
    std::size_t answered = 0;
  };
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// Runs the context until every caller has been answered.
inline void run_until_complete(asio::io_context& io, const crowd& c) {
  run_until(io, [&] { return c.complete(); });
}

/// The error of a call, or none.
template <class F>
error_code error_of(F&& f) {
  try {
    f();
  } catch (const boost::system::system_error& e) {
    return e.code();
  }
  return {};
}

/// A new connection sends one key, and twice as many with each round trip. After these calls, what
/// a test sends in one go is sent in one go.
inline void open_send_window(asio::io_context& io, const store& s) {
  const limiter l(s, "send window",
                  fixed_window{.limit = max_units, .window = std::chrono::hours{1}});
  crowd c;
  for (int i = 0; i < 2000; ++i) l.fetch(std::to_string(i), c.caller());
  run_until_complete(io, c);
}

}  // namespace weir::test

/// BOOST_TEST with codes and enumerators prints nothing readable; this prints the message.
#define WEIR_TEST_ERROR(code, expected)                                                      \
  do {                                                                                       \
    const ::weir::error_code weir_test_code = (code);                                        \
    BOOST_CHECK_MESSAGE(weir_test_code == (expected),                                        \
                        #code " is \"" << weir_test_code.message() << "\", not " #expected); \
  } while (false)
