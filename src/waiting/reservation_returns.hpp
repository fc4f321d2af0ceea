#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Turns on their way back to the store. Those of a crowd that leaves go back together, the last
/// turn first: only so nobody who has a later one stands in the way. Any thread may call.
class reservation_returns {
 public:
  /// Has the store take back what each of these holds, soon. `sent` is called once it has been told
  /// so; not if the context shuts down before.
  void add(const boost::asio::any_io_executor& executor, std::span<const check* const> booked,
           std::function<void()> sent = {});

  /// Now instead of soon.
  void send();

 private:
  struct batch;

  std::mutex mutex_;
  std::weak_ptr<batch> open_;  // owned by the function that will send it
};

}  // namespace weir::detail
