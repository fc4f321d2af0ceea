#include "waiting/reservation_returns.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "check/detached_check.hpp"
#include "check/limiter_spec.hpp"

namespace weir::waiting {

using detail::check;
using detail::delivery;

struct reservation_returns::batch {
  std::mutex mutex;
  std::vector<check*> checks;
  std::vector<std::function<void()>> afterwards;
  std::shared_ptr<void> keep_alive;
  bool is_being_sent = false, is_sent = false;

  /// False if the batch was already sent.
  bool take(std::span<const check* const> booked, std::function<void()>& sent) {
    const std::lock_guard lock(mutex);
    if (is_sent) return false;
    for (const check* c : booked) checks.push_back(&make_give_back(*c));
    if (sent) afterwards.push_back(std::move(sent));
    return true;
  }

  /// One thread at a time sends, and goes on with what comes meanwhile. With several threads, a
  /// later batch would overtake an earlier one, and reach the store while reservations behind its
  /// own still stand there.
  void send(std::shared_ptr<void>&& keep) {
    {
      const std::lock_guard lock(mutex);
      if (is_sent) return;
      if (keep != nullptr) keep_alive = std::move(keep);
      if (std::exchange(is_being_sent, true)) return;
    }
    while (send_some()) {
    }
  }

  /// False if there is nothing more to send.
  bool send_some() {
    std::vector<check*> all;
    std::vector<std::function<void()>> then;
    std::shared_ptr<void> let_go;
    {
      const std::lock_guard lock(mutex);
      is_sent = checks.empty() && afterwards.empty();
      if (is_sent) {
        let_go = std::move(keep_alive);  // released outside the mutex
        return false;
      }
      all.swap(checks);
      then.swap(afterwards);
    }
    const auto reserved_time = [](const check* c) {
      const decision& booked = detail::as<detail::give_back_request>(*c).booked;
      return booked.decided_at + booked.delay;
    };
    std::stable_sort(all.begin(), all.end(), [&](const check* a, const check* b) {
      return reserved_time(a) > reserved_time(b);
    });
    for (check* c : all) {
      const auto store = c->limiter->store;
      store->start(*c);
    }
    for (const auto& f : then) f();
    return true;
  }

  // Checks are left only if the context shut down before the batch was sent.
  ~batch() {
    for (check* c : checks) c->finish(delivery::discard);
  }
};

void reservation_returns::add(const boost::asio::any_io_executor& executor,
                              std::span<const check* const> booked, std::function<void()> sent) {
  const std::lock_guard lock(mutex_);
  if (const auto open = open_.lock(); open != nullptr && open->take(booked, sent)) return;
  const auto fresh = std::make_shared<batch>();
  fresh->take(booked, sent);
  open_ = fresh;
  boost::asio::post(executor, [fresh] { fresh->send(nullptr); });
}

void reservation_returns::send(std::shared_ptr<void> keep_alive) {
  std::shared_ptr<batch> open;
  {
    const std::lock_guard lock(mutex_);
    open = open_.lock();
  }
  if (open != nullptr) open->send(std::move(keep_alive));
}

}  // namespace weir::waiting
