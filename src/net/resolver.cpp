#include "net/resolver.hpp"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "weir/error.hpp"

namespace weir::net {

namespace asio = boost::asio;

/// The data of a look-up's thread, which may outlive the resolver and the context. Only the way
/// back belongs to the context; forget_question() takes it away.
struct resolver::question {
  std::string host;
  std::string port;

  std::mutex mutex;
  std::optional<strand> way_back;
  std::weak_ptr<void> asker;
  resolver* lookup = nullptr;
};

namespace {

resolver::endpoints addresses_of(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  resolver::endpoints found;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &first) != 0) return found;
  for (const addrinfo* a = first; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    found.emplace_back(a->ai_addr, a->ai_addrlen, IPPROTO_TCP);
  }
  ::freeaddrinfo(first);
  return found;
}

/// Blocks all signals, so that the look-up's thread never runs the program's signal handlers.
class signals_blocked {
 public:
  signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    blocked_ = pthread_sigmask(SIG_BLOCK, &all, &before_) == 0;
  }
  ~signals_blocked() {
    if (blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t before_{};
  bool blocked_ = false;
};

}  // namespace

resolver::~resolver() { forget_question(); }

/// Takes the way back from the look-up. If the thread is posting its answer, waits for that post.
void resolver::forget_question() {
  if (!question_) return;
  {
    const std::lock_guard lock(question_->mutex);
    question_->way_back.reset();
  }
  question_.reset();
}

void resolver::ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
                   report r) {
  report_ = std::move(r);
  error_code not_an_address;
  const auto address = asio::ip::make_address(host, not_an_address);
  if (!not_an_address) {
    endpoints found;
    found.emplace_back(asio::ip::tcp::endpoint(address, port));
    return post_answer(std::move(found), alive);
  }
  if (!unheard_.empty()) return post_answer(std::exchange(unheard_, {}), alive);
  if (question_) return;
  question_ = std::make_shared<question>();
  question_->host = host;
  question_->port = std::to_string(port);
  question_->way_back = strand_;
  question_->asker = alive;
  question_->lookup = this;
  try {
    const signals_blocked in_its_thread;
    std::thread([q = question_] { look_up(q); }).detach();
  } catch (const std::system_error&) {  // no thread available: the next attempt may get one
    question_.reset();
    post_answer({}, alive);
  }
}

void resolver::look_up(const std::shared_ptr<question>& q) {
  endpoints found = addresses_of(q->host, q->port);
  const std::lock_guard lock(q->mutex);
  if (!q->way_back) return;
  std::shared_ptr<void> alive = q->asker.lock();
  if (!alive) return;
  asio::post(*q->way_back,
             [lookup = q->lookup, found = std::move(found), alive = std::move(alive)]() mutable {
               lookup->forget_question();
               if (lookup->report_) {
                 lookup->answer(std::move(found));
               } else {
                 lookup->unheard_ = std::move(found);
               }
             });
}

void resolver::post_answer(endpoints&& found, const std::shared_ptr<void>& alive) {
  asio::post(strand_,
             [this, found = std::move(found), alive]() mutable { answer(std::move(found)); });
}

void resolver::answer(endpoints&& found) {
  if (report_) std::exchange(report_, nullptr)(std::move(found));
}

void resolver::leave(const std::shared_ptr<void>& alive) {
  if (!report_) return;
  asio::post(strand_, [r = std::exchange(report_, nullptr), alive] { r({}); });
}

}  // namespace weir::net
