// Four processes saturate one key of a memcached server. Together they are allowed exactly the
// limit, with every policy.
#include "support/child_processes.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/stores.hpp"

namespace memcached_processes_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t processes = 4;
constexpr std::int64_t limit = is_sanitized ? 100 : 500;
constexpr int at_once = 5;  // calls in flight in each process
constexpr std::int64_t leases = 7;

/// What a process tells when it has finished with a policy. Small enough for a pipe to keep it in
/// one piece.
struct report {
  std::int32_t policy;  // or of_leases
  std::int32_t error;   // the last error's number; 0: none
  std::int64_t allowed, refused, failed;
};
constexpr std::int32_t of_leases = -1;

std::vector<named_policy> policies() {
  auto all = slow_policies(limit);
  all.push_back({"fixed_window that counts refused calls",
                 fixed_window{.limit = limit, .window = 24h, .count_refused = true}});
  return all;
}

/// A process's whole life.
class child {
 public:
  child(std::uint16_t port, int go, int result) : go_(go), result_(result) {
    memcached_options o;
    o.servers = {memcached_server{.port = port}};
    o.timeout = o.silence_timeout = 50s;
    o.breaker_failures = 0;
    store_.emplace(make_memcached_store(io_.get_executor(), o));
  }

  void run() {
    std::int32_t number = 0;
    for (const auto& p : policies()) {
      wait_for_all();
      saturate(limiter(*store_, p.name, p.policy), number++);
    }
    wait_for_all();
    limiter two(*store_, "tiers",
                tiers(gcra{per_day(1), 2 * limit}, fixed_window{.limit = limit, .window = 24h}));
    saturate(two, number++);
    wait_for_all();
    take_leases();
  }

 private:
  void wait_for_all() {
    char byte = 0;
    if (::read(go_, &byte, 1) != 1) ::_exit(4);
  }

  void saturate(limiter l, std::int32_t number) {
    report r{number, 0, 0, 0, 0};
    std::int64_t left = limit;  // each process alone would reach it
    int under_way = 0;
    const std::function<void()> call = [&] {
      --left;
      ++under_way;
      l.record("hot", [&](error_code ec, const decision& d) {
        --under_way;
        ++(ec ? r.failed : d.allowed ? r.allowed : r.refused);
        if (ec) r.error = ec.value();
        if (left > 0) call();
      });
    };
    for (int i = 0; i < at_once; ++i) call();
    io_.restart();
    while (under_way > 0) io_.run_one();
    tell(r);
  }

  void take_leases() {
    concurrency_limiter gate(*store_, "gate", {.limit = leases, .lease_duration = 60s});
    std::vector<lease> held;
    report r{of_leases, 0, 0, 0, 0};
    for (std::int64_t i = 0; i < leases; ++i) {
      bool done = false;
      gate.enter("hot", [&](error_code ec, lease l) {
        ++(ec ? r.failed : l.decision().allowed ? r.allowed : r.refused);
        if (l.decision().allowed) held.push_back(std::move(l));
        done = true;
      });
      io_.restart();
      while (!done) io_.run_one();
    }
    tell(r);
    wait_for_all();
    ::_exit(0);
  }

  void tell(const report& r) {
    if (::write(result_, &r, sizeof r) != ssize_t{sizeof r}) ::_exit(2);
  }

  boost::asio::io_context io_{1};
  const int go_;
  const int result_;
  std::optional<store> store_;
};

/// Waits for the port. No destructor of the parent's, and no assertion.
[[noreturn]] void be_child(int go, int result) {
  ::alarm(120);  // should the parent be gone
  try {
    std::uint16_t port = 0;
    if (::read(go, &port, sizeof port) != ssize_t{sizeof port}) ::_exit(1);
    child(port, go, result).run();
    ::_exit(0);
  } catch (...) {
    ::_exit(3);
  }
}

struct fixture {
  child_processes<processes> children{[](int, int go, int result) { be_child(go, result); }};
  /// What all have told of one policy, together.
  report gather() {
    report sum{};
    for (std::size_t i = 0; i < processes; ++i) {
      report r{};
      BOOST_TEST_REQUIRE(::read(children.results, &r, sizeof r) == sizeof r);
      sum.policy = r.policy;
      sum.error = std::max(sum.error, r.error);
      sum.allowed += r.allowed;
      sum.refused += r.refused;
      sum.failed += r.failed;
    }
    return sum;
  }

  memcached_server_process server;
};

BOOST_FIXTURE_TEST_SUITE(memcached_processes_suite, fixture)

BOOST_AUTO_TEST_CASE(four_processes_are_allowed_exactly_the_limit) {
  children.send_all(server.port());
  std::vector<std::string> names;
  for (const auto& p : policies()) names.push_back(p.name);
  names.push_back("tiers");
  for (const std::string& name : names) {
    const std::int64_t lost = server.figure("cas_badval");
    children.send_all('g');
    const report sum = gather();
    BOOST_TEST_CONTEXT(name << ", last error " << sum.error) {
      BOOST_TEST(sum.allowed == limit);
      BOOST_TEST(sum.refused == static_cast<std::int64_t>(processes - 1) * limit);
      BOOST_TEST(sum.failed == 0);
    }
    BOOST_TEST_MESSAGE(name << ": " << server.figure("cas_badval") - lost << " swaps lost");
  }
  // The test has seen what it is about.
  BOOST_TEST(server.figure("cas_badval") > 50);

  children.send_all('g');
  const report sum = gather();
  BOOST_TEST(sum.allowed == leases);
  BOOST_TEST(sum.failed == 0);
  children.send_all('g');
  for (std::size_t i = 0; i < processes; ++i) BOOST_TEST(children.wait(i) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_processes_test
