#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "weir/detail/operation_memory.hpp"

namespace weir::detail {

/// Allocates what operations need for themselves.
template <class T>
struct operation_allocator {
  using value_type = T;

  operation_allocator() noexcept = default;
  template <class U>
  operation_allocator(const operation_allocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(allocate_operation(n * sizeof(T)));
  }
  void deallocate(T* block, std::size_t n) noexcept { free_operation(block, n * sizeof(T)); }

  friend bool operator==(operation_allocator, operation_allocator) noexcept { return true; }
};

/// The executor for a store's own functions. The executor of an io_context or of a thread_pool, as
/// nearly always, is called directly, with operation_memory for the functions. So a steady state
/// allocates nothing: any_io_executor would allocate twice for each function, and once for each
/// query of whether it blocks, and Asio caches only two blocks. Any other executor is called as it
/// is.
class direct_executor {
  using any = boost::asio::any_io_executor;
  using allocator = operation_allocator<void>;
  template <class Context>
  using plain = typename Context::template basic_executor_type<allocator, 0>;
  using blocking = boost::asio::execution::blocking_t;
  using outstanding_work = boost::asio::execution::outstanding_work_t;
  // Keeps the run() of its context busy.
  template <class Context>
  using busy = std::decay_t<decltype(boost::asio::require(std::declval<const plain<Context>&>(),
                                                          outstanding_work::tracked))>;

 public:
  static direct_executor of(const any& executor) {
    using boost::asio::io_context, boost::asio::thread_pool;
    const auto own = boost::asio::execution::allocator(allocator());
    if (const auto* const context = executor.target<io_context::executor_type>()) {
      return {made, boost::asio::require(*context, own)};
    }
    if (const auto* const pool = executor.target<thread_pool::executor_type>()) {
      return {made, boost::asio::require(*pool, own)};
    }
    return {made, executor};
  }

  // Asio demands copies without exceptions, and std::variant does not promise them.
  direct_executor(const direct_executor&) noexcept = default;
  direct_executor(direct_executor&&) noexcept = default;
  direct_executor& operator=(const direct_executor&) = default;
  direct_executor& operator=(direct_executor&&) = default;

  // The properties that a strand asks for.

  boost::asio::execution_context& query(boost::asio::execution::context_t property) const noexcept {
    return std::visit(
        [=](const auto& target) -> boost::asio::execution_context& {
          return boost::asio::query(target, property);
        },
        target_);
  }
  blocking query(blocking property) const noexcept {
    return std::visit(
        [=](const auto& target) -> blocking { return boost::asio::query(target, property); },
        target_);
  }
  allocator query(boost::asio::execution::allocator_t<void>) const noexcept { return {}; }

  direct_executor require(blocking::never_t property) const {
    return std::visit(
        [=](const auto& target) {
          return direct_executor(made, boost::asio::require(target, property));
        },
        target_);
  }
  direct_executor require(outstanding_work::tracked_t property) const {
    return std::visit(
        [=](const auto& target) {
          return direct_executor(made, boost::asio::prefer(target, property));
        },
        target_);
  }

  template <class Function>
  void execute(Function&& function) const {
    std::visit([&](const auto& target) { target.execute(std::forward<Function>(function)); },
               target_);
  }

  friend bool operator==(const direct_executor&, const direct_executor&) noexcept = default;

 private:
  // Without this tag, deciding whether any_io_executor can be made of this class would need to know
  // whether this class can be made of any_io_executor.
  static constexpr struct made_t {
  } made{};

  template <class Target>
  direct_executor(made_t, Target&& target) : target_(std::forward<Target>(target)) {}

  std::variant<plain<boost::asio::io_context>, busy<boost::asio::io_context>,
               plain<boost::asio::thread_pool>, busy<boost::asio::thread_pool>, any>
      target_;
};

}  // namespace weir::detail
