// The mutex of the checks' way: nobody enters beside its owner, and nobody sleeps on.
#include "base/light_mutex.hpp"

#include <mutex>
#include <thread>

#include "support/test.hpp"

namespace light_mutex_test {

using weir::detail::light_mutex;

constexpr int threads = 4;

/// Calls f(number) in so many threads, and waits for them.
template <class F>
void in_threads(F&& f) {
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back([&f, i] { f(i); });
}

BOOST_AUTO_TEST_SUITE(light_mutex_suite)

BOOST_AUTO_TEST_CASE(a_locked_one_cannot_be_locked) {
  light_mutex m;
  BOOST_TEST(m.try_lock());
  BOOST_TEST(!m.try_lock());
  m.unlock();
  BOOST_TEST(m.try_lock());
  m.unlock();
}

BOOST_AUTO_TEST_CASE(one_thread_at_a_time_is_inside) {
  constexpr int rounds = 50'000;
  light_mutex m;
  int count = 0, inside = 0, most_inside = 0;
  in_threads([&](int) {
    for (int n = 0; n < rounds; ++n) {
      const std::lock_guard lock(m);
      most_inside = std::max(most_inside, ++inside);
      ++count;
      --inside;
    }
  });
  BOOST_TEST(count == threads * rounds);
  BOOST_TEST(most_inside == 1);
}

// The owner gives its core away while it holds the lock, so that the others fall asleep, all of
// them at times. If an unlock forgot one, the test would not end.
BOOST_AUTO_TEST_CASE(who_sleeps_is_woken) {
  constexpr int rounds = 2000;
  light_mutex m;
  std::vector<int> entered(threads);
  in_threads([&](int number) {
    for (int n = 0; n < rounds; ++n) {
      const std::lock_guard lock(m);
      for (int i = 0; i < 8; ++i) std::this_thread::yield();
      ++entered[static_cast<std::size_t>(number)];
    }
  });
  for (const int n : entered) BOOST_TEST(n == rounds);
}

BOOST_AUTO_TEST_CASE(it_may_be_destroyed_by_who_locks_it_next) {
  for (int n = 0; n < 2000; ++n) {
    auto m = std::make_unique<light_mutex>();
    m->lock();
    std::jthread other([&] {
      m->lock();  // may sleep
      m->unlock();
      m.reset();
    });
    m->unlock();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace light_mutex_test
