#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "weir/detail/check.hpp"

namespace weir::detail {

namespace asio = boost::asio;

/// A check with the caller's completion handler, in one allocation by the handler's own allocator,
/// freed before the handler runs. `Check` is a check_of or a joint_check_of.
template <class Check, class Handler>
class check_operation final : public Check {
  using handler_executor = asio::associated_executor_t<Handler, asio::any_io_executor>;
  using work = std::decay_t<decltype(asio::prefer(std::declval<handler_executor>(),
                                                  asio::execution::outstanding_work.tracked))>;
  using allocator = typename std::allocator_traits<
      asio::associated_allocator_t<Handler>>::template rebind_alloc<check_operation>;
  using allocator_traits = std::allocator_traits<allocator>;

 public:
  static void start(Handler&& handler, const asio::any_io_executor& fallback,
                    std::shared_ptr<const limiter_spec>&& limiter,
                    typename Check::arguments&& asked) {
    auto slot = asio::get_associated_cancellation_slot(handler);
    allocator alloc(asio::get_associated_allocator(handler));
    check_operation* op = allocator_traits::allocate(alloc, 1);
    // Nothing below throws: handlers and executors move without throwing.
    ::new (static_cast<void*>(op))
        check_operation(std::move(handler), fallback, std::move(limiter), std::move(asked));
    if (slot.is_connected()) slot.template emplace<canceller>(op);
    start_check(*op);
  }

  void finish(delivery how) override {
    owner self(this);
    switch (how) {
      case delivery::dispatch: {
        handler_executor executor = executor_;
        asio::dispatch(executor, std::move(self));
        break;
      }
      case delivery::post: {
        handler_executor executor = executor_;
        asio::post(executor, std::move(self));
        break;
      }
      case delivery::discard:
        break;
    }
  }

 private:
  struct canceller {
    check_operation* op;
    explicit canceller(check_operation* o) noexcept : op(o) {}
    void operator()(asio::cancellation_type type) const {
      using ct = asio::cancellation_type;
      if ((type & (ct::terminal | ct::partial)) != ct::none) {
        cancel_check(*op, cancel_scope::any);
      } else if ((type & ct::total) != ct::none) {
        cancel_check(*op, cancel_scope::only_unsent);
      }
    }
  };

  /// Owns the operation on its way to the handler's executor. It must be freed only there, because
  /// the cancellation slot points at it and is emitted there.
  struct owner {
    explicit owner(check_operation* o) noexcept : op(o) {}
    owner(owner&& other) noexcept : op(std::exchange(other.op, nullptr)) {}
    owner& operator=(owner&&) = delete;
    ~owner() {
      if (op != nullptr) destroy(op);
    }
    void operator()() { complete(std::exchange(op, nullptr)); }
    check_operation* op;
  };

  check_operation(Handler&& handler, const asio::any_io_executor& fallback,
                  std::shared_ptr<const limiter_spec>&& limiter, typename Check::arguments&& asked)
      : Check(std::move(limiter), std::move(asked)),
        executor_(asio::get_associated_executor(handler, fallback)),
        work_(asio::prefer(executor_, asio::execution::outstanding_work.tracked)),
        handler_(std::move(handler)) {}

  static void destroy(check_operation* op) {
    allocator alloc(asio::get_associated_allocator(op->handler_));
    allocator_traits::destroy(alloc, op);
    allocator_traits::deallocate(alloc, op, 1);
  }

  static void complete(check_operation* op) {
    asio::get_associated_cancellation_slot(op->handler_).clear();
    // The library's own handlers take more from the check; see enter_operation.hpp.
    if constexpr (requires(check& c) { op->handler_.hear(c); }) op->handler_.hear(*op);
    Handler handler(std::move(op->handler_));
    const error_code result = op->ec;
    const decision answer = op->answer;
    const work keep_alive(std::move(op->work_));
    {
      allocator alloc(asio::get_associated_allocator(handler));
      allocator_traits::destroy(alloc, op);
      allocator_traits::deallocate(alloc, op, 1);
    }
    if constexpr (has_decision(Check::kind_of)) {
      std::move(handler)(result, answer);
    } else {
      std::move(handler)(result);
    }
  }

  handler_executor executor_;
  work work_;
  Handler handler_;
};

/// The initiation for async_initiate: makes the operation and starts it.
struct check_initiation {
  std::shared_ptr<const limiter_spec> core;
  asio::any_io_executor executor;

  using executor_type = asio::any_io_executor;
  executor_type get_executor() const noexcept { return executor; }

  template <class Handler, class Arguments>
  void operator()(Handler&& handler, Arguments asked) && {
    // Copies the caller's handler if it is an lvalue.
    using operation = check_operation<typename Arguments::check_type, std::decay_t<Handler>>;
    operation::start(std::decay_t<Handler>(std::forward<Handler>(handler)), executor,
                     std::move(core), std::move(asked));
  }
  /// For a call that may ask one of several things.
  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, std::variant<Arguments...> asked) && {
    std::visit(
        [&](auto& one) { std::move (*this)(std::forward<Handler>(handler), std::move(one)); },
        asked);
  }
  template <class Handler, class Arguments>
  void operator()(Handler&& handler, Arguments asked) const& {
    check_initiation copy(*this);
    std::move(copy)(std::forward<Handler>(handler), std::move(asked));
  }
};

}  // namespace weir::detail
