// What Asio promises of handlers: when and where they run, and with which allocator. Each test
// runs on each store.
#include "each_store.hpp"
#include "support/run.hpp"

namespace handlers_test {

using namespace weir;
using namespace weir::test;
using fixture = each_store_fixture;

struct allocations {
  int made = 0;
  int live = 0;
};

template <class T>
struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(allocations& c) noexcept : counts(&c) {}
  template <class U>
  counting_allocator(const counting_allocator<U>& other) noexcept : counts(other.counts) {}
  T* allocate(std::size_t n) {
    ++counts->made;
    ++counts->live;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    --counts->live;
    std::allocator<T>().deallocate(p, n);
  }
  friend bool operator==(const counting_allocator&, const counting_allocator&) = default;

  allocations* counts;
};

BOOST_FIXTURE_TEST_SUITE(handlers_suite, fixture)

BOOST_DATA_TEST_CASE_F(fixture, a_deferred_call_starts_later_and_needs_nothing_of_its_caller,
                       each_store, store) {
  auto l = std::make_unique<limiter>(open(store));
  auto subject = std::make_unique<std::string>(1000, 's');  // too long to be kept inside the object
  auto pending = l->record(*subject);
  const limiter same = *l;
  std::fill(subject->begin(), subject->end(), 'x');
  subject.reset();
  l.reset();
  for (int i = 0; i < 100; ++i) io.poll();  // it is only a description of a call yet

  crowd c;
  same.fetch(std::string(1000, 's'), c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c[0].d.used == 0);

  pending(c.caller());  // an lvalue: the description can be started again
  std::move(pending)(c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c[1].d.used == 1);
  BOOST_TEST(c[2].d.used == 2);
}

BOOST_DATA_TEST_CASE_F(fixture, a_pending_call_outlives_limiter_and_store_handle, each_store,
                       store) {
  crowd c;
  {
    const auto l = open(store);
    for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  }
  // The calls hold the store; when they are answered it goes, and nothing keeps the context busy.
  run_out(io);
  BOOST_TEST(c.allowed() == 5u);
}

BOOST_DATA_TEST_CASE_F(fixture, the_handler_never_runs_inside_the_call, each_store, store) {
  const auto l = open(store);
  int finished = 0;
  bool inside = false;
  const auto note = [&](error_code, decision = {}) {
    BOOST_TEST(!inside);
    ++finished;
  };
  const auto start = [&] {
    inside = true;
    for (const char* subject : {"a", ""}) {
      l.record(subject, note);
      l.fetch(subject, note);
      l.reset(subject, note);
      l.record(subject, {.cost = -1}, note);
    }
    inside = false;
  };
  start();
  asio::post(io, start);  // on the context's own thread, where a dispatch would run at once
  run_until(io, [&] { return finished == 16; });
}

BOOST_DATA_TEST_CASE_F(fixture, handlers_run_on_the_stores_executor_by_default, each_store, store) {
  const auto l = open(store);
  BOOST_TEST((l.get_executor() == asio::any_io_executor(io.get_executor())));
  bool done = false;
  l.record("a", [&](error_code, decision) {
    BOOST_TEST(io.get_executor().running_in_this_thread());
    done = true;
  });
  run_until(io, [&] { return done; });
}

BOOST_DATA_TEST_CASE_F(fixture, a_bound_executor_is_honoured, each_store, store) {
  const auto l = open(store);
  asio::io_context other;
  int done = 0;
  for (const char* subject : {"a", ""}) {  // an error found early goes the same way
    l.record(subject, asio::bind_executor(other, [&](error_code, decision) {
               BOOST_TEST(other.get_executor().running_in_this_thread());
               ++done;
             }));
  }
  // Answered, as far as the store's own context is concerned.
  crowd c;
  l.record("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c[0].d.used == 2);
  BOOST_TEST(done == 0);
  run_out(other);
  BOOST_TEST(done == 2);
}

// A pending call is work for the caller's context: without it, run() would return before the
// answer.
BOOST_DATA_TEST_CASE_F(fixture, a_pending_call_keeps_its_executors_context_busy, each_store,
                       store) {
  const auto l = open(store);
  asio::io_context other;
  bool done = false;
  l.record("a", asio::bind_executor(other, [&](error_code, decision) { done = true; }));
  const auto look = [&] {
    other.poll();
    BOOST_TEST(other.stopped() == done);  // stopped: it has run out of work
    return done;
  };
  run_until(io, look);
}

BOOST_DATA_TEST_CASE_F(fixture, the_handlers_allocator_is_used_and_given_back_first, each_store,
                       store) {
  const auto l = open(store);
  allocations counts;
  int done = 0;
  const auto handler = [&](error_code, decision = {}) {
    BOOST_TEST(counts.live == 0);
    ++done;
  };
  const auto with = [&] { return asio::bind_allocator(counting_allocator<char>(counts), handler); };
  const auto one = [&](auto&& call) {
    const int made = counts.made;
    const int before = done;
    call();
    BOOST_TEST(counts.made == made + 1);  // the operation, and nothing else
    run_until(io, [&] { return done == before + 1; });
    BOOST_TEST(counts.live == 0);
  };
  one([&] { l.record("a", with()); });
  one([&] { l.fetch("a", with()); });
  one([&] { l.reset("a", with()); });
  one([&] { l.record("", with()); });
}

BOOST_DATA_TEST_CASE_F(fixture, a_handler_that_throws_takes_no_other_along, each_store, store) {
  const auto l = open(store, 100);
  crowd c;
  int throws = 0;
  for (int i = 0; i < 20; ++i) {
    l.record("a", c.caller());
    l.record("a", [&](error_code, decision) {
      ++throws;
      throw std::runtime_error("mine");
    });
  }
  int caught = 0;  // Asio may throw several as one
  while (!c.complete() || throws < 20) {
    try {
      run_until(io, [&] { return c.complete() && throws == 20; });
    } catch (const std::exception&) {
      ++caught;
    }
  }
  BOOST_TEST(throws == 20);
  BOOST_TEST(caught >= 1);
  for (std::size_t i = 0; i < c.size(); ++i) {
    BOOST_TEST(c[i].times == 1);
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(2 * i + 1));
  }
}

// The thread was busy for longer than the timeout, and the reply waits in the socket: what the
// handler starts once woke the connection before it had read, and the call ended with no_reply.
BOOST_DATA_TEST_CASE_F(fixture, a_handler_that_outlasts_a_timeout_ends_no_call_that_was_answered,
                       boost::unit_test::data::make({"tcp", "unix"}), store) {
  const std::string url = empty_store_url(store);
  const weir::policy policy = fixed_window{.limit = 5, .window = 24h};
  asio::io_context elsewhere;
  const limiter l(open_store(io.get_executor(), url), "r", policy);
  const limiter other(open_store(elsewhere.get_executor(), url), "r", policy);
  const auto used = [&] {
    crowd c;
    other.fetch("a", c.caller());
    run_until_complete(elsewhere, c);
    return c[0].d.used;
  };
  crowd c;
  l.fetch("a", c.caller());  // opens the connection
  run_until_complete(io, c);
  asio::post(io, [&] {
    constexpr auto timeout = 500ms;
    l.record("a", {.timeout = timeout}, c.caller());
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    asio::post(io, [&, deadline] {  // behind the write
      const auto limit = deadline + watchdog;
      while (used() == 0 || std::chrono::steady_clock::now() < deadline + 10ms) {
        if (std::chrono::steady_clock::now() > limit) break;
      }
      l.record("b", c.caller());
    });
  });
  run_until(io, [&] { return c.answered() == 3; });
  BOOST_TEST(c[1].ec == error_code());
  BOOST_TEST(c[1].d.used == 1);
  BOOST_TEST(c[2].ec == error_code());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace handlers_test
