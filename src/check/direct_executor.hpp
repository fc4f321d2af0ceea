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

/// The executor for a store's own functions. If the store was given the executor of an
/// io_context, as nearly always, that one is called, and operation_memory holds the functions. So a
/// steady state allocates nothing: any_io_executor would allocate twice for each function, and once
/// to say whether it blocks, and Asio keeps only two blocks for later. Any other executor is called
/// as it is.
class direct_executor {
  using any = boost::asio::any_io_executor;
  using allocator = operation_allocator<void>;
  using plain = boost::asio::io_context::basic_executor_type<allocator, 0>;
  using blocking = boost::asio::execution::blocking_t;
  using outstanding_work = boost::asio::execution::outstanding_work_t;
  // Keeps the run() of its context busy.
  using busy = std::decay_t<decltype(boost::asio::require(std::declval<const plain&>(),
                                                          outstanding_work::tracked))>;

 public:
  static direct_executor of(const any& executor) {
    const auto* const usual = executor.target<boost::asio::io_context::executor_type>();
    if (usual == nullptr) return {made, executor};
    return {made, boost::asio::require(*usual, boost::asio::execution::allocator(allocator()))};
  }

  // A std::variant does not promise what Asio demands, copies without exceptions.
  direct_executor(const direct_executor& other) noexcept : target_(other.target_) {}
  direct_executor(direct_executor&& other) noexcept : target_(std::move(other.target_)) {}
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
  // Without it, any_io_executor, which takes any executor, would ask whether this class is one, and
  // the compiler, whether this class can be made of one.
  static constexpr struct made_t {
  } made{};

  template <class Target>
  direct_executor(made_t, Target&& target) : target_(std::forward<Target>(target)) {}

  std::variant<plain, busy, any> target_;
};

}  // namespace weir::detail
