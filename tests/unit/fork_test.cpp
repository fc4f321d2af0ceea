// A forked process shares the parent's memory, and must not share its numbers.
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.hpp"
#include "limiter/limiter_impl.hpp"
#include "support/run.hpp"

namespace fork_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t count = 1000;
using numbers = std::array<std::uint64_t, count>;

/// What `next` gives a child process, and this one after it was forked.
template <class Next>
std::array<numbers, 3> in_three_processes(Next&& next) {
  std::array<numbers, 3> of{};
  const auto fill = [&](numbers& some) {
    for (std::uint64_t& n : some) n = next();
  };
  for (std::size_t child = 0; child < 2; ++child) {
    std::array<int, 2> ends{};
    BOOST_REQUIRE(pipe(ends.data()) == 0);
    const pid_t pid = fork();
    BOOST_REQUIRE(pid >= 0);
    if (pid == 0) {
      fill(of[child]);
      const ssize_t written = write(ends[1], of[child].data(), sizeof(numbers));
      _exit(written == sizeof(numbers) ? 0 : 1);
    }
    close(ends[1]);
    auto* to = reinterpret_cast<char*>(of[child].data());
    std::size_t got = 0;
    for (ssize_t n = 1; n > 0 && got < sizeof(numbers); got += static_cast<std::size_t>(n)) {
      n = read(ends[0], to + got, sizeof(numbers) - got);
    }
    close(ends[0]);
    int status = 0;
    BOOST_REQUIRE(waitpid(pid, &status, 0) == pid);
    BOOST_TEST(status == 0);
    BOOST_TEST(got == sizeof(numbers));
  }
  fill(of[2]);
  return of;
}

void check_distinct(const std::array<numbers, 3>& of) {
  std::set<std::uint64_t> all;
  for (const numbers& some : of) all.insert(some.begin(), some.end());
  BOOST_TEST(all.size() == 3 * count);
}

BOOST_AUTO_TEST_SUITE(fork_suite)

// Each thread seeded its generator once: after fork() both processes wrote the same receipts, and a
// refund in one made that of the other "already settled".
BOOST_AUTO_TEST_CASE(receipts_of_a_forked_process_are_its_own) {
  asio::io_context io;
  const limiter l(make_memory_store(io.get_executor()), "r",
                  fixed_window{.limit = 1'000'000, .window = 1h});
  const auto next = [&] {
    std::uint64_t id = 0;
    l.record("a", [&](error_code, decision d) { id = d.receipt.id; });
    io.restart();
    io.poll();
    return id;
  };
  BOOST_TEST(next() != 0u);  // the parent's generator has its seed
  check_distinct(in_three_processes(next));
}

BOOST_AUTO_TEST_CASE(leases_of_a_forked_process_have_numbers_of_their_own) {
  asio::io_context io;
  const auto store = make_memory_store(io.get_executor());
  const auto core = std::make_shared<const weir::detail::limiter_impl>(
      store.backend(), "r", concurrency_options{.limit = 10});
  const auto next = [&] {
    const std::int64_t n = weir::detail::new_lease_number(*core);
    BOOST_REQUIRE(n > weir::policies::lease_set::nobody);
    BOOST_REQUIRE(n <= max_units);
    return static_cast<std::uint64_t>(n);
  };
  next();
  check_distinct(in_three_processes(next));
}

// A child's child, and siblings forked one right after the other.
BOOST_AUTO_TEST_CASE(every_process_has_a_salt_of_its_own) {
  BOOST_TEST(weir::detail::fork_salt() == 0u);
  check_distinct(in_three_processes(
      [n = std::uint64_t{0}]() mutable { return weir::detail::fork_salt() + ++n; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fork_test
