#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "weir/detail/check.hpp"
#include "weir/detail/export.hpp"
#include "weir/detail/operation_memory.hpp"

namespace weir::detail {

namespace asio = boost::asio;

/// A store's executor. Nearly always it is that of an io_context, and `usual` points at it; else it
/// is null.
struct store_executor {
  using usual_type = asio::io_context::executor_type;

  const asio::any_io_executor& any;
  const usual_type* usual;
};

/// The executor of the limiter's store.
WEIR_EXPORT store_executor executor_of(const limiter_spec& limiter) noexcept;

template <class Executor>
bool is_same(const Executor& one, const store_executor& other) {
  if constexpr (!std::is_same_v<Executor, asio::any_io_executor>) {
    const Executor* const inside = other.any.target<Executor>();
    return inside != nullptr && *inside == one;
  } else if (other.usual == nullptr) {
    return one == other.any;
  } else {  // the same, and cheaper: any_io_executor asks both for their types
    const auto* const inside = one.template target<store_executor::usual_type>();
    return inside != nullptr && *inside == *other.usual;
  }
}

/// A check with the caller's completion handler, in one allocation by the handler's own allocator.
/// It is freed before the handler runs, as Asio demands; with the default allocator, where nobody
/// can see it, after the handler. `Check` is a check_of or a joint_check_of.
template <class Check, class Handler>
class check_operation final : public Check {
  using handler_executor = asio::associated_executor_t<Handler, asio::any_io_executor>;
  using work = std::decay_t<decltype(asio::prefer(std::declval<handler_executor>(),
                                                  asio::execution::outstanding_work.tracked))>;
  using allocator = typename std::allocator_traits<
      asio::associated_allocator_t<Handler>>::template rebind_alloc<check_operation>;
  using allocator_traits = std::allocator_traits<allocator>;

 public:
  static void start(Handler&& handler, std::shared_ptr<const limiter_spec>&& limiter,
                    typename Check::arguments&& asked) {
    const store_executor of_store = executor_of(*limiter);
    if (!of_store.any) return;  // the context of the store is gone: nobody can be told
    auto slot = asio::get_associated_cancellation_slot(handler);
    void* const room = allocate(handler);
    // Handlers and executors move without throwing.
    auto* const op = ::new (room)
        check_operation(std::move(handler), std::move(limiter), std::move(asked), of_store);
    if (slot.is_connected()) {
      owner freed_if_it_throws(op);  // the slot may have no memory
      slot.template emplace<canceller>(op);
      freed_if_it_throws.op = nullptr;
    }
    start_check(*op);
  }

  void finish(delivery how) override {
    // This function's caller runs on the store's executor: another dispatch would change nothing.
    if (how == delivery::dispatch && this->at_store) return complete(this);
    finish_elsewhere(how);
  }

 private:
  /// The common case calls no function that needs room on the stack, so it saves no registers.
  [[gnu::noinline]] void finish_elsewhere(delivery how) {
    owner self(this);
    if (how == delivery::discard) return;
    if (!work_) return asio::post(executor_of(*this->limiter).any, std::move(self));
    const work executor = *work_;
    if (how == delivery::dispatch) {
      asio::dispatch(executor, std::move(self));
    } else {
      asio::post(executor, std::move(self));
    }
  }

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
      if (op != nullptr) destroy(op, op->handler_);
    }
    void operator()() { complete(std::exchange(op, nullptr)); }
    check_operation* op;
  };

  check_operation(Handler&& handler, std::shared_ptr<const limiter_spec>&& of,
                  typename Check::arguments&& with, const store_executor& of_store)
      : Check(std::move(of), std::move(with)), handler_(std::move(handler)) {
    const handler_executor executor = asio::get_associated_executor(handler_, of_store.any);
    this->at_store = is_same(executor, of_store);
    if (!this->at_store || !this->traits.decides_now) {
      work_.emplace(asio::prefer(executor, asio::execution::outstanding_work.tracked));
    }
  }

  // The default allocator has no state, and its blocks are kept for the thread's next operations.
  static constexpr bool keeps_blocks = std::is_same_v<allocator, std::allocator<check_operation>> &&
                                       alignof(check_operation) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  /// Not inline: the caller may be a stackful coroutine, which can resume in another thread, and
  /// its function must not keep the address of a thread_local.
  [[gnu::noinline]] static void* allocate([[maybe_unused]] const Handler& handler) {
    if constexpr (keeps_blocks) {
      return allocate_operation(sizeof(check_operation));
    } else {
      allocator alloc(asio::get_associated_allocator(handler));
      return std::to_address(allocator_traits::allocate(alloc, 1));
    }
  }

  /// `handler` may be the operation's own.
  static void destroy(check_operation* op, const Handler& handler) {
    if constexpr (keeps_blocks) {
      op->~check_operation();
      free_operation(op, sizeof(check_operation));
    } else {
      allocator alloc(asio::get_associated_allocator(handler));
      allocator_traits::destroy(alloc, op);
      allocator_traits::deallocate(alloc, op, 1);
    }
  }

  static void complete(check_operation* op) {
    if (!op->flight.is_counted) note_end(*op);
    asio::get_associated_cancellation_slot(op->handler_).clear();
    // The library's own handlers take more from the check; see enter_operation.hpp.
    if constexpr (requires(check& c) { op->handler_.take_from(c); }) op->handler_.take_from(*op);
    if constexpr (keeps_blocks) {
      // The default allocator: handler and answer stay in the block, and nothing is moved.
      const struct last {
        check_operation* op;
        ~last() { destroy(op, op->handler_); }
      } freed_afterwards{op};
      op->release_limiters();
      call(std::move(op->handler_), op->ec, op->result());
    } else {
      Handler handler(std::move(op->handler_));
      const error_code result = op->ec;
      const auto answer = op->result();
      [[maybe_unused]] const std::optional<work> keep_alive(std::move(op->work_));
      destroy(op, handler);
      call(std::move(handler), result, answer);
    }
  }

  static void call(Handler&& handler, const error_code& result, const auto& answer) {
    if constexpr (Check::has_decision) {
      std::move(handler)(result, answer);
    } else {
      std::move(handler)(result);
    }
  }

  std::optional<work> work_;  // keeps the context of the handler's executor busy
  Handler handler_;
};

/// The initiation for async_initiate: makes the operation and starts it.
struct check_initiation {
  std::shared_ptr<const limiter_spec> core;

  using executor_type = asio::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*core).any; }

  template <class Handler, class Arguments>
  void operator()(Handler&& handler, Arguments&& asked) && {
    start(moved_or_copied(std::forward<Handler>(handler)),
          moved_or_copied(std::forward<Arguments>(asked)));
  }
  template <class Handler, class Arguments>
  void operator()(Handler&& handler, Arguments&& asked) const& {
    check_initiation copy(*this);
    std::move(copy)(std::forward<Handler>(handler), std::forward<Arguments>(asked));
  }

 private:
  /// Passes a reference to what may be moved from, because that costs less than a move.
  template <class T>
  static T&& moved_or_copied(T&& object)
    requires(!std::is_lvalue_reference_v<T> && !std::is_const_v<T>)
  {
    return std::move(object);
  }
  template <class T>
  static std::decay_t<T> moved_or_copied(const T& object) {
    return object;
  }

  template <class Handler, class Arguments>
  void start(Handler&& handler, Arguments&& asked) {
    check_operation<typename Arguments::check_type, Handler>::start(
        std::move(handler), std::move(core), std::move(asked));
  }
  /// For a call that may ask one of several things.
  template <class Handler, class... Arguments>
  void start(Handler&& handler, std::variant<Arguments...>&& asked) {
    std::visit([&](auto& one) { start(std::move(handler), std::move(one)); }, asked);
  }
};

/// Starts a call of one limiter. CompletionToken says whether the token may be moved from.
template <class CompletionToken, class Request>
auto initiate(const std::shared_ptr<const limiter_spec>& core,
              std::remove_reference_t<CompletionToken>& token, std::string_view subject,
              std::chrono::microseconds timeout, std::int64_t units, Request asked) {
  using signature = std::conditional_t<check_of<Request>::has_decision, void(error_code, decision),
                                       void(error_code)>;
  // The subject is copied here: a deferred operation may start after the caller's text is gone.
  return asio::async_initiate<CompletionToken, signature>(
      check_initiation{core}, token,
      arguments_of<Request>{copy_of_subject(subject), timeout, units, std::move(asked)});
}

}  // namespace weir::detail
