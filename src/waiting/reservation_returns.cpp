#include "waiting/reservation_returns.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"

namespace weir::waiting {

using detail::check;
using detail::delivery;

struct reservation_returns::batch {
  std::mutex mutex;
  std::vector<check*> checks;
  std::vector<std::function<void()>> afterwards;
  bool is_being_sent = false, is_sent = false;

  /// False if the batch was already sent.
  bool take(std::vector<check*>& give_backs, std::function<void()>& sent) {
    const std::lock_guard lock(mutex);
    if (is_sent) return false;
    checks.insert(checks.end(), give_backs.begin(), give_backs.end());
    give_backs.clear();
    afterwards.push_back(std::move(sent));
    return true;
  }

  /// One thread at a time sends, also what comes meanwhile. With several threads, later give-backs
  /// could overtake earlier ones, and reach the store while reservations behind theirs still stand
  /// there.
  void send() {
    {
      const std::lock_guard lock(mutex);
      if (is_sent || std::exchange(is_being_sent, true)) return;
    }
    try {
      while (send_some()) {
      }
    } catch (...) {  // out of memory
      const std::lock_guard lock(mutex);
      is_being_sent = false;
      throw;
    }
  }

  /// False if there is nothing more to send.
  bool send_some() {
    std::vector<check*> all;
    std::vector<std::function<void()>> then;
    {
      const std::lock_guard lock(mutex);
      is_sent = checks.empty() && afterwards.empty();
      if (is_sent) return false;
      all.swap(checks);
      then.swap(afterwards);
    }
    // Many reservations may have one time, the start of a window. The one made last goes back
    // first; for those of one script call, the TATs of their buckets tell the order.
    const auto place = [](const check* c) {
      const decision& d = detail::as<detail::settle_request>(*c).about;
      std::array<std::pair<std::int64_t, std::int64_t>, receipt{}.buckets.size()> turns;
      std::ranges::transform(d.receipt.buckets, turns.begin(),
                             [](const receipt::bucket& b) { return std::pair(b.whole, b.part); });
      return std::tuple(d.decided_at + d.delay, d.decided_at, turns);
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const check* a, const check* b) { return place(a) > place(b); });
    const auto go_on = [&then] {
      for (const auto& f : then) f();
    };
    if (!all.empty()) {
      const auto store = all.front()->limiter->store;
      try {
        store->start_all(all);
      } catch (...) {  // out of memory: what waits for these must not wait for ever
        go_on();
        throw;
      }
    }
    go_on();
    return true;
  }

  // Checks are left only if the context shut down before the batch was sent.
  ~batch() {
    for (check* c : checks) c->finish(delivery::discard);
  }
};

void reservation_returns::add(const boost::asio::any_io_executor& executor,
                              std::vector<check*>&& give_backs, std::function<void()> sent) {
  const std::lock_guard lock(mutex_);
  if (const auto open = open_.lock(); open != nullptr && open->take(give_backs, sent)) return;
  const auto fresh = std::make_shared<batch>();
  fresh->take(give_backs, sent);
  open_ = fresh;
  boost::asio::post(executor, [fresh] { fresh->send(); });
}

}  // namespace weir::waiting
