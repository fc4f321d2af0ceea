// The service reads its limits from a JSON file, and again on SIGHUP. The file has the text form of
// a policy for each resource:
//
//     {"partner-api": "token_bucket 20, 100/s", "mail": "10/s, 5000/day"}
//
// A file with a fault changes nothing. A new limiter goes on with the counts of the old one if the
// kind of policy is the same: docs/policies.md says how. Calls that wait already keep the
// reservations of the old policy.
//
//     limits_from_a_file [redis://127.0.0.1:6379]
#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/json/src.hpp>  // a service links Boost.JSON instead
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

class limits {
 public:
  limits(weir::store store, std::filesystem::path file)
      : store_(std::move(store)), file_(std::move(file)) {
    load();
  }

  /// Replaces the limiters by those that the file describes. Throws and changes nothing if the file
  /// cannot be read or a policy is not valid. Callers of old limiters keep them alive.
  void load() {
    std::ifstream file(file_);
    if (!file) throw std::runtime_error("cannot read " + file_.string());
    std::ostringstream text;
    text << file.rdbuf();
    const boost::json::value all = boost::json::parse(text.str());
    std::map<std::string, weir::limiter, std::less<>> made;
    for (const auto& [resource, policy] : all.as_object()) {
      const weir::tiers rules = weir::parse_policy(policy.as_string());
      made.emplace(resource, weir::limiter(store_, resource, rules));
    }
    limiters_ = std::move(made);
  }

  /// A handle, which stays valid when the file is read again. Throws if the file does not name the
  /// resource.
  weir::limiter limiter_of(const std::string& resource) const { return limiters_.at(resource); }

 private:
  weir::store store_;
  std::filesystem::path file_;
  std::map<std::string, weir::limiter, std::less<>> limiters_;
};

struct service {
  limits all;
  int reloads = 0;
};

asio::awaitable<void> reload_on_hang_up(service& s, asio::signal_set& hang_up) {
  for (;;) {
    const auto [ec, signal] = co_await hang_up.async_wait(asio::as_tuple(asio::deferred));
    if (ec) co_return;  // cancelled
    try {
      s.all.load();
      std::cout << "the limits are those of the file now\n";
    } catch (const std::exception& e) {
      std::cout << "the old limits stay: " << e.what() << "\n";
    }
    ++s.reloads;
  }
}

asio::awaitable<bool> call_partner(service& s) {
  const weir::limiter partner = s.all.limiter_of("partner-api");
  const weir::decision d = co_await partner.record("account-42");
  std::cout << to_string(partner.policy()) << ": " << to_string(d) << "\n";
  co_return d.allowed;
}

/// Plays the operator, who writes the file and sends SIGHUP.
asio::awaitable<void> change(service& s, const std::filesystem::path& file, std::string_view to) {
  std::ofstream(file) << to;
  const int before = s.reloads;
  ::kill(::getpid(), SIGHUP);
  while (s.reloads == before) co_await examples::sleep_for(1ms);
}

asio::awaitable<void> example(weir::store store) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("weir-limits-" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << R"({"partner-api": "token_bucket 2, 1/h", "mail": "10/s, 5000/day"})";
  service s{limits(std::move(store), file)};
  const auto executor = co_await asio::this_coro::executor;
  asio::signal_set hang_up(executor, SIGHUP);
  asio::co_spawn(executor, reload_on_hang_up(s, hang_up), examples::rethrow);
  const weir::limiter partner = s.all.limiter_of("partner-api");
  co_await partner.reset("account-42");

  expect(co_await call_partner(s), "the first of two");
  expect(co_await call_partner(s), "the second of two");
  expect(!co_await call_partner(s), "the limit is used up");
  co_await change(s, file, R"({"partner-api": "token_bucket 3, 1/h", "mail": "20/s"})");
  expect(co_await call_partner(s), "the new limit has one more");
  co_await change(s, file, R"({"partner-api": "token_buket 9, 1/h", "mail": "20/s"})");
  expect(!co_await call_partner(s), "a file with a fault changes nothing");
  std::filesystem::remove(file);
  hang_up.cancel();
  // The coroutine above ends before `s` does.
  co_await asio::post(executor, asio::deferred);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }
