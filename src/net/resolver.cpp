#include "net/resolver.hpp"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "weir/error.hpp"

namespace weir::net {

namespace asio = boost::asio;

namespace {

using clock = std::chrono::steady_clock;

/// Longer than a round of attempts at several names, so that a slow name is not looked up anew each
/// time; short, because a name may get other addresses.
constexpr std::chrono::minutes keep_answer{1};

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

/// The data of a look-up's thread, which may outlive the resolver and the context. Only the way
/// back belongs to the context; forget() takes it away.
struct resolver::question {
  const std::string host;
  std::optional<strand> way_back;
  const std::weak_ptr<void> asker;
  resolver* const lookup;
  std::mutex mutex = {};  // of way_back

  // Used on the strand only; empty until the answer has come.
  addresses found = {};
  clock::time_point kept_until = clock::time_point::max();
};

resolver::~resolver() {
  for (const auto& q : questions_) forget(*q);
}

/// Takes the way back from the look-up. If the thread is posting its answer, waits for that post.
void resolver::forget(question& q) {
  const std::lock_guard lock(q.mutex);
  q.way_back.reset();
}

void resolver::ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
                   report r) {
  report_ = std::move(r);
  host_ = host;
  port_ = port;
  error_code not_an_address;
  const auto address = asio::ip::make_address(host, not_an_address);
  if (!not_an_address) return post_answer({asio::ip::tcp::endpoint(address, 0)}, alive);
  std::erase_if(questions_, [](const auto& q) { return q->kept_until <= clock::now(); });
  const auto same = std::ranges::find_if(questions_,
                                         [&](const auto& q) { return q->host == host; });
  if (same == questions_.end()) return start(alive);
  if ((*same)->found.empty()) return;  // in progress
  post_answer(std::move((*same)->found), alive);
  questions_.erase(same);
}

void resolver::start(const std::shared_ptr<void>& alive) {
  if (!make_room()) return post_answer({}, alive);
  const auto q = std::make_shared<question>(host_, strand_, alive, this);
  questions_.push_back(q);
  try {
    const signals_blocked in_its_thread;
    std::thread([q] { look_up(q); }).detach();
  } catch (const std::system_error&) {  // no thread available: the next attempt may get one
    questions_.pop_back();
    post_answer({}, alive);
  }
}

/// Drops the oldest answer if there are max_names questions. False if all are in progress.
bool resolver::make_room() {
  if (questions_.size() < max_names) return true;
  const auto answered = std::ranges::min_element(questions_, {},
                                                 [](const auto& q) { return q->kept_until; });
  if ((*answered)->found.empty()) return false;
  questions_.erase(answered);
  return true;
}

resolver::addresses resolver::addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  addresses found;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return found;
  for (const addrinfo* a = first; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    std::memcpy(found.emplace_back().data(), a->ai_addr, a->ai_addrlen);
  }
  ::freeaddrinfo(first);
  return found;
}

void resolver::look_up(const std::shared_ptr<question>& q) {
  addresses found = addresses_of(q->host);
  const std::lock_guard lock(q->mutex);
  if (!q->way_back) return;
  std::shared_ptr<void> alive = q->asker.lock();
  if (!alive) return;
  asio::post(*q->way_back, [q, found = std::move(found), alive = std::move(alive)]() mutable {
    q->lookup->note_reply(*q, std::move(found));
  });
}

void resolver::note_reply(question& q, addresses&& found) {
  forget(q);
  const bool wanted = report_ && q.host == host_;
  if (wanted || found.empty()) {
    std::erase_if(questions_, [&](const auto& other) { return other.get() == &q; });
    if (wanted) answer(found);
  } else {
    q.found = std::move(found);
    q.kept_until = clock::now() + keep_answer;
  }
}

void resolver::post_answer(addresses&& found, const std::shared_ptr<void>& alive) {
  asio::post(strand_, [this, found = std::move(found), alive] { answer(found); });
}

void resolver::answer(const addresses& found) {
  if (!report_) return;
  endpoints all;
  for (asio::ip::tcp::endpoint e : found) {
    e.port(port_);
    all.emplace_back(e);
  }
  std::exchange(report_, nullptr)(std::move(all));
}

void resolver::leave(const std::shared_ptr<void>& alive) {
  if (!report_) return;
  asio::post(strand_, [r = std::exchange(report_, nullptr), alive] { r({}); });
}

}  // namespace weir::net
