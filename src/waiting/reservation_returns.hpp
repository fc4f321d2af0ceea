#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/detail/check.hpp"

namespace weir::waiting {

/// How many batches of checks one thread may start before the store's executor continues.
inline constexpr int most_rounds = 16;

/// Collects reservations and gives them back to the store together, the last one first, because the
/// store takes back only units on which no later reservation stands. Thread-safe.
class reservation_returns {
 public:
  /// Starts these give-backs, all of one store, with the current batch, which `executor` sends.
  /// `sent` is called after the batch was started in the store, but not if the context shuts down
  /// before.
  void add(const boost::asio::any_io_executor& executor, std::vector<detail::check*>&& give_backs,
           std::function<void()> sent);

 private:
  struct batch;

  std::mutex mutex_;
  std::weak_ptr<batch> open_;  // owned by the posted function that will send it
};

}  // namespace weir::waiting
