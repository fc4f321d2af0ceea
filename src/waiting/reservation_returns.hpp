#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "weir/detail/check.hpp"

namespace weir::waiting {

/// Collects reservations and gives them back to the store together, the last one first, because the
/// store takes back only units on which no later reservation stands. Thread-safe.
class reservation_returns {
 public:
  /// Gives these back with the current batch, which `executor` sends. `sent` is called after the
  /// batch was started in the store, but not if the context shuts down before.
  void add(const boost::asio::any_io_executor& executor,
           std::span<const detail::check* const> reservations, std::function<void()> sent = {});

  /// Sends the current batch now. If another thread is sending it, that thread goes on.
  void send();

  /// The same, and then calls `last`, which gives back what is left when the store closes. Keeps
  /// `keep_alive`, which keeps the closing store, until all is sent.
  void close(const std::function<void()>& last, const std::shared_ptr<void>& keep_alive);

 private:
  struct batch;

  std::shared_ptr<batch> open_batch();

  std::mutex mutex_;
  std::weak_ptr<batch> open_;  // owned by the posted function that will send it
};

}  // namespace weir::waiting
