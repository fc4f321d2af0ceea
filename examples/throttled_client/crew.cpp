#include "crew.hpp"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <iostream>
#include <optional>
#include <utility>

#include "throttled_client.hpp"
#include "vendor.hpp"

namespace throttled {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

std::vector<std::string> job::to_arguments() const {
  return {"--worker",
          store,
          account,
          certificate,
          port,
          std::to_string(callers),
          with_weir ? "with" : "without"};
}

job job::from_arguments(const std::vector<std::string>& a) {
  return {a.at(0), a.at(1), a.at(2), a.at(3), std::stoi(a.at(4)), a.at(5) == "with"};
}

std::ostream& operator<<(std::ostream& out, const crew_report& r) {
  return out << r.answered << ' ' << r.turned_away << ' ' << r.failed << ' ' << r.paused << ' '
             << r.displaced;
}

std::istream& operator>>(std::istream& in, crew_report& r) {
  return in >> r.answered >> r.turned_away >> r.failed >> r.paused >> r.displaced;
}

namespace {

class crew {
 public:
  explicit crew(const job& work)
      : work_(work), store_(weir::open_store(context_.get_executor(), work.store)) {
    tls_.add_certificate_authority(asio::buffer(work.certificate));
    client_options options{.host = "localhost", .port = work.port, .account = work.account};
    options.prepare = [this](http_request& r) { prepare(r); };
    options.paused = [this] { paused(); };
    options.displaced = [this] { ++report_.displaced; };
    // The vendor answers in a tenth of a second.
    options.timeout = 2s;
    options.lease = 3s;
    client_.emplace(store_, tls_, vendor_limits{}, std::move(options));
  }

  crew_report run() {
    asio::co_spawn(context_, command(), [this](std::exception_ptr e) {
      if (e) failure_ = e;
      // Not left to run dry: the store's open connection counts as work.
      context_.stop();
    });
    context_.run();
    if (failure_) std::rethrow_exception(failure_);
    return report_;
  }

 private:
  asio::awaitable<void> command() {
    asio::posix::stream_descriptor input(context_, ::dup(STDIN_FILENO));
    std::string lines;
    // Empty at the end of the input.
    const auto next_line = [&]() -> asio::awaitable<std::string> {
      const auto [end, size] = co_await asio::async_read_until(
          input, asio::dynamic_buffer(lines), '\n', asio::as_tuple(asio::use_awaitable));
      if (end) co_return "";
      std::string line = lines.substr(0, size - 1);
      lines.erase(0, size);
      co_return line;
    };

    if (work_.with_weir) co_await client_->connect(work_.callers);
    std::cout << "ready" << std::endl;
    if (co_await next_line() != "go") co_return;
    for (int i = 0; i < work_.callers; ++i) {
      ++busy_;
      const auto caller_left = [this](std::exception_ptr e) {
        if (e) failure_ = e;
        if (--busy_ == 0) all_left_.cancel();
      };
      if (work_.with_weir) {
        asio::co_spawn(context_, make_calls(), caller_left);
      } else {
        asio::co_spawn(context_, make_calls_as_we_like(), caller_left);
      }
    }
    if (co_await next_line() == "stop when you hold a lease") {
      stop_at_next_call_ = true;
      co_await next_line();
    }
    over_ = true;
    while (busy_ > 0) co_await all_left_.async_wait(asio::as_tuple(asio::use_awaitable));
  }

  /// After each call a moment to think about the answer.
  asio::awaitable<void> make_calls() {
    asio::steady_timer thinking(context_);
    while (!over_) {
      http_request request = new_request();
      try {
        const http_response response = co_await client_->call(request);
        ++(response.result() == http::status::ok ? report_.answered : report_.turned_away);
      } catch (const std::exception& e) {
        ++report_.failed;
        std::cerr << "a call failed: " << e.what() << std::endl;
      }
      thinking.expires_after(20ms);
      co_await thinking.async_wait(asio::deferred);
    }
  }

  /// What many clients do: a call when there is something to call for, and after a 429 the wait
  /// that it asks for.
  asio::awaitable<void> make_calls_as_we_like() {
    asio::ip::tcp::resolver resolver(context_);
    const addresses to = co_await resolver.async_resolve("localhost", work_.port, asio::deferred);
    https_connection vendor(context_.get_executor(), tls_);
    co_await vendor.connect(to, "localhost", 5s);
    asio::steady_timer timer(context_);
    while (!over_) {
      http_request request = new_request();
      prepare(request);
      const http_response response = co_await vendor.exchange(request, 5s);
      if (response.result() == http::status::ok) {
        ++report_.answered;
        continue;
      }
      ++report_.turned_away;
      paused();
      const std::string seconds(response[http::field::retry_after]);
      timer.expires_after(std::chrono::seconds(std::stoi(seconds)));
      co_await timer.async_wait(asio::deferred);
    }
  }

  static http_request new_request() {
    http_request request(http::verb::get, "/", 11);
    request.set(http::field::host, "localhost");
    return request;
  }

  // For the vendor's books, see ledger::call.
  void prepare(http_request& request) {
    const auto text = [](vendor_time t) { return std::to_string(t.time_since_epoch().count()); };
    request.set(asked_header, text(vendor_clock::now()));
    if (heard_) request.set(heard_header, text(*heard_));
    // The client calls this while it holds a lease, before its last look at it.
    if (std::exchange(stop_at_next_call_, false)) {
      std::cout << "stopping" << std::endl;
      ::raise(SIGSTOP);
    }
  }
  void paused() {
    ++report_.paused;
    // The first time counts; the others of the same pause come within its second.
    const auto now = vendor_clock::now();
    if (!heard_ || now - *heard_ > 1s) heard_ = now;
  }

  const job work_;
  asio::io_context context_{1};
  asio::ssl::context tls_{asio::ssl::context::tls_client};
  weir::store store_;
  std::optional<throttled_client> client_;

  asio::steady_timer all_left_{context_, asio::steady_timer::time_point::max()};
  int busy_ = 0;
  bool over_ = false;
  bool stop_at_next_call_ = false;
  std::optional<vendor_time> heard_;
  crew_report report_;
  std::exception_ptr failure_;
};

}  // namespace

int run_crew(const job& work) {
  try {
    crew workers(work);
    const crew_report report = workers.run();
    std::cout << "done " << report << std::endl;
    return 0;
  } catch (const std::exception& e) {
    std::cout << "failed " << e.what() << std::endl;
    return 1;
  }
}

}  // namespace throttled
