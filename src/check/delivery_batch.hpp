#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/direct_executor.hpp"
#include "base/prefetch.hpp"
#include "check/flight.hpp"

namespace weir::detail {

/// Delivers many finished checks in one posted function, outside the store's own handlers, so that
/// a slow handler delays no I/O. If a handler throws, the rest is posted again before the exception
/// propagates.
///
/// After the first_ones checks, the rest is posted again. So the calls that the first handlers
/// start are sent before the rest is delivered, and the server is not idle meanwhile.
class delivery_batch {
 public:
  static void post(const direct_executor& executor, check_list&& done) {
    if (done.empty()) return;
    boost::asio::post(executor, delivery_batch(executor, std::move(done)));
  }
  static void post(const boost::asio::any_io_executor& executor, check_list&& done) {
    post(direct_executor::of(executor), std::move(done));
  }

  delivery_batch(const direct_executor& executor, check_list&& done) : executor_(executor) {
    done_.swap(done);
  }
  delivery_batch(delivery_batch&& other) noexcept
      : executor_(other.executor_), is_rest_(other.is_rest_) {  // post_rest() needs it afterwards
    done_.swap(other.done_);
  }

  // Checks are left only if the context shut down before the function ran.
  ~delivery_batch() {
    while (!done_.empty()) take().finish(detail::delivery::discard);
  }

  /// Call it on that executor.
  void operator()() {
    for (int i = 0; !done_.empty(); ++i) {
      if (i == first_ones && !std::exchange(is_rest_, true) && post_rest()) return;
      try {
        take().finish(detail::delivery::dispatch);
      } catch (...) {
        post(executor_, std::move(done_));
        throw;
      }
    }
  }

 private:
  check& take() {
    check& c = done_.front();
    done_.pop_front();
    fetch_soon();
    return c;
  }

  /// Prefetches the memory of the caller after the next one: with thousands of callers, a
  /// coroutine's frame leaves the caches while the coroutine waits.
  void fetch_soon() const noexcept {
    auto soon = done_.begin();
    if (soon == done_.end() || ++soon == done_.end()) return;
    // A frame has the promise, the parameters and the variables before the operand of co_await.
    // These lines cover most of a usual frame; prefetching any other address does no harm.
    constexpr std::size_t lines_before = 9, lines = 14;
    prefetch_lines(soon->frame_hint - lines_before * cache_line, lines);
  }

  /// False without memory: the caller then delivers the rest itself. The rest is shared, because a
  /// post that fails destroys its function, and would discard the checks in it.
  bool post_rest() {
    std::shared_ptr<delivery_batch> rest;
    try {
      rest = std::make_shared<delivery_batch>(std::move(*this));
      boost::asio::post(executor_, [rest] { (*rest)(); });
      return true;
    } catch (const std::bad_alloc&) {
      if (rest != nullptr) done_.swap(rest->done_);
      return false;
    }
  }

  // Enough for one write, and half of a thousand callers: one half is at the server while the
  // handlers of the other half run.
  static constexpr int first_ones = 512;

  direct_executor executor_;
  check_list done_;
  bool is_rest_ = false;  // the first ones have been delivered
};

}  // namespace weir::detail
