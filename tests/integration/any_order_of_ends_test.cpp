// The limiter, the store, a lease and the execution context end in every order, with calls in every
// state. The address sanitizer watches; without it, this shows that nothing hangs and that no
// handler runs afterwards.
#include "support/leases.hpp"
#include "support/stores.hpp"

namespace any_order_of_ends_test {

using namespace weir;
using namespace weir::test;

constexpr token_bucket one_a_day{.capacity = 1, .refill = per_day(1)};
constexpr acquire_options patiently{.max_wait = std::chrono::hours{24 * 30}};

enum class place { memory, redis };
enum class state { idle, recording, acquiring, sleeping, sleeping_for_several, held, cooling_down };
enum class ending { closed, stopped, outstanding };

constexpr place places[] = {place::memory, place::redis};
constexpr state states[] = {
    state::idle, state::recording,   state::acquiring, state::sleeping, state::sleeping_for_several,
    state::held, state::cooling_down};
constexpr ending endings[] = {ending::closed, ending::stopped, ending::outstanding};

redis_server& server() {
  static redis_server started;
  return started;
}

/// What a service has: a context, a store on it, a limiter, perhaps a lease, and calls.
class service {
 public:
  service(place where, bool on_strand) : context_(std::make_unique<asio::io_context>()) {
    asio::any_io_executor executor = context_->get_executor();
    if (on_strand) executor = asio::make_strand(context_->get_executor());
    store_ = where == place::memory ? make_memory_store(executor)
                                    : make_redis_store(executor, patient_options(server()));
    // A name of its own, so that no service meets another's counts.
    static int made = 0;
    const std::string name = std::to_string(++made);
    limiter_.emplace(*store_, "r" + name, one_a_day,
                     limiter_options{.group = "g" + name, .cool_downs = true});
    gate_.emplace(*store_, "gate" + name, concurrency_options{.limit = 5, .lease_duration = 1h});
  }

  void come_to(state s) {
    switch (s) {
      case state::idle:
        break;
      case state::recording:
        for (int i = 0; i < 10; ++i) limiter_->record("a", calls_.caller());
        asio::co_spawn(
            *context_, [l = *limiter_]() -> asio::awaitable<void> { co_await l.record("a"); },
            asio::detached);
        break;
      case state::acquiring:
        for (int i = 0; i < 10; ++i) limiter_->acquire("a", patiently, calls_.caller());
        break;
      case state::sleeping:
        limiter_->acquire("a", calls_.caller());
        for (int i = 0; i < 3; ++i) limiter_->acquire("a", patiently, calls_.caller());
        asio::co_spawn(
            *context_,
            [l = *limiter_]() -> asio::awaitable<void> { co_await l.acquire("a", patiently); },
            asio::detached);
        settle(1);
        break;
      case state::sleeping_for_several: {
        const limiter other(*store_, "other", one_a_day, {.group = group_of(limiter_->resource())});
        const auto wait = [&](auto handler) {
          acquire_all(limiter_->on("a"), other.on("a"),
                      joint_acquire_options{.max_wait = patiently.max_wait}, handler);
        };
        for (int i = 0; i < 3; ++i) wait(calls_.caller());
        wait([l = *limiter_](error_code, const decision&) {});
        settle(1);
        break;
      }
      case state::held:
        lease_ = enter(*context_, *gate_, "a");
        lease_->lost(calls_.caller());
        gate_->enter("a", [](error_code, lease) {});
        break;
      case state::cooling_down: {
        crowd paused;
        limiter_->cool_down("a", 1h, paused.caller());
        run_until_complete(*context_, paused);
        limiter_->acquire("a", patiently, calls_.caller());
        limiter_->record("a", calls_.caller());
        settle(1);
        break;
      }
    }
  }

  void come_to(ending e) {
    if (e == ending::stopped) context_->stop();
    if (e == ending::closed) {
      store_->close();
      run_out(*context_);
    }
  }

  /// 'l': the limiter and the gate, 's': the store, 'p': the lease's place, 'c': the context.
  void end(char which) {
    if (which == 'l') limiter_.reset(), gate_.reset();
    if (which == 's') store_.reset();
    if (which == 'p') lease_.reset();
    if (which == 'c') {
      const std::size_t before = calls_.answered();
      context_.reset();
      BOOST_TEST(calls_.answered() == before);
    }
  }

  /// What is allowed when the context is gone, beside destructors.
  void close_and_release() {
    if (store_) store_->close();
    if (lease_) lease_->release();
  }

 private:
  static std::string group_of(std::string_view resource) {
    return "g" + std::string(resource.substr(1));
  }

  /// Until so many have been answered, and a little further: waiters that sleep have asked before,
  /// or with, the last of them.
  void settle(std::size_t answers) {
    run_until(*context_, [&] { return calls_.answered() >= answers; });
    while (context_->poll() != 0) {
    }
  }

  std::unique_ptr<asio::io_context> context_;
  std::optional<store> store_;
  std::optional<limiter> limiter_;
  std::optional<concurrency_limiter> gate_;
  std::optional<lease> lease_;
  crowd calls_;
};

struct fixture {
  template <class Ends>
  void in_every_order(Ends&& ends) {
    for (const place where : places) {
      for (const bool on_strand : {false, true}) {
        for (const state s : states) {
          for (const ending e : endings) {
            std::string order = "clps";
            do {
              BOOST_TEST_CONTEXT("store " << int(where) << ", on a strand " << on_strand
                                          << ", state " << int(s) << ", ending " << int(e)
                                          << ", order " << order) {
                service made(where, on_strand);
                made.come_to(s);
                made.come_to(e);
                ends(made, order);
              }
            } while (std::next_permutation(order.begin(), order.end()));
          }
        }
      }
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(any_order_of_ends_suite, fixture)

BOOST_AUTO_TEST_CASE(timers_sockets_and_strands_do_not_outlive_their_context) {
  in_every_order([](service& made, const std::string& order) {
    for (const char which : order) made.end(which);
  });
}

BOOST_AUTO_TEST_CASE(close_and_release_do_nothing_once_the_context_is_gone) {
  in_every_order([](service& made, const std::string& order) {
    bool gone = false;
    for (const char which : order) {
      made.end(which);
      gone = gone || which == 'c';
      if (gone) made.close_and_release();
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace any_order_of_ends_test
