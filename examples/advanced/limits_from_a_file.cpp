// Limits in a JSON file, which the service reads again on SIGHUP: each resource with the text form
// of its policy.
//
//     {"partner-api": "token_bucket 20, 100/s", "mail": "10/s, 5000/day"}
//
// A file with a fault changes nothing. The new limiters go on with the counts of the old ones, as
// docs/policies.md describes. Calls that wait already keep the reservations of the old policy.
//
//     limits_from_a_file [redis://127.0.0.1:6379]
#include <signal.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <boost/json/src.hpp>  // a service links Boost.JSON instead
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "../example.hpp"

namespace asio = boost::asio;
using examples::expect;

namespace {

class limits {
 public:
  limits(weir::store store, std::filesystem::path file)
      : store_(std::move(store)), file_(std::move(file)) {
    load();
  }

  /// Makes the limiters that the file describes, in place of those before. Throws, and keeps those,
  /// if the file or a policy has a fault. Callers of old limiters keep them alive.
  void load() {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    const boost::json::value all = boost::json::parse(text.str());
    std::map<std::string, weir::limiter, std::less<>> made;
    for (const auto& [resource, policy] : all.as_object()) {
      const weir::tiers rules = weir::parse_policy(policy.as_string());
      made.emplace(resource, weir::limiter(store_, resource, rules));
    }
    limiters_ = std::move(made);
  }

  /// A handle: it stays valid when the file is read again.
  weir::limiter of(std::string_view resource) const { return limiters_.find(resource)->second; }

 private:
  weir::store store_;
  std::filesystem::path file_;
  std::map<std::string, weir::limiter, std::less<>> limiters_;
};

void load_again(limits& all) {
  try {
    all.load();
    std::cout << "read again: " << to_string(all.of("partner-api").policy()) << "\n";
  } catch (const std::exception& e) {
    std::cout << "kept the old limits: " << e.what() << "\n";
  }
}

/// Plays the operator: writes the file, sends SIGHUP, and waits for the service to read it.
asio::awaitable<void> change(limits& all, const std::filesystem::path& file, std::string_view to) {
  asio::signal_set hang_up(co_await asio::this_coro::executor, SIGHUP);
  std::ofstream(file) << to;
  ::kill(::getpid(), SIGHUP);
  co_await hang_up.async_wait(asio::deferred);
  load_again(all);
}

asio::awaitable<void> example(weir::store store) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("weir-limits-" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << R"({"partner-api": "token_bucket 2, 1/h", "mail": "10/s, 5000/day"})";
  limits all(std::move(store), file);
  co_await all.of("partner-api").reset("account-42");
  const auto call = [&all]() -> asio::awaitable<bool> {
    const weir::limiter partner = all.of("partner-api");
    const weir::decision d = co_await partner.record("account-42");
    std::cout << to_string(d) << "\n";
    co_return d.allowed;
  };

  expect(co_await call(), "the first of two");
  expect(co_await call(), "the second of two");
  expect(!co_await call(), "the limit is used up");
  co_await change(all, file, R"({"partner-api": "token_bucket 3, 1/h"})");
  expect(co_await call(), "the new limit has one more");
  co_await change(all, file, R"({"partner-api": "token_buket 9, 1/h"})");
  expect(!co_await call(), "a file with a fault changes nothing");
  std::filesystem::remove(file);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }
