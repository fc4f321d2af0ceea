#pragma once

#include <boost/asio/associator.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "weir/detail/check_operation.hpp"
#include "weir/detail/export.hpp"

namespace weir::detail {

/// What an enter knows when its answer has come; the lease is made from it.
struct entered {
  std::shared_ptr<const limiter_spec> core;
  std::int64_t lease = 0;
  short_text subject = {};
  std::chrono::steady_clock::time_point started{};
  std::chrono::steady_clock::time_point sent{};  // zero: never, or a memory store
};

WEIR_EXPORT std::int64_t new_lease_number(const limiter_spec& core) noexcept;

/// Adapts the caller's handler, which takes an error code and a Lease, to the handler of a check.
/// Executor, allocator and cancellation slot are those of the caller's handler.
template <class Lease, class Handler>
struct enter_handler {
  entered in;
  Handler handler;

  void take_from(check& c) noexcept {
    in.sent = sent_at(c);
    in.subject = std::move(c.subject);
  }

  void operator()(error_code ec, const joint_decision& answer) && {
    Lease lease(std::move(in), ec, answer);
    std::move(handler)(ec, std::move(lease));
  }
};

template <class Lease>
struct enter_initiation {
  std::shared_ptr<const limiter_spec> core;

  using executor_type = asio::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*core).any; }

  template <class Handler, class Arguments>
  void operator()(Handler&& handler, Arguments asked) const {
    using wrapped = enter_handler<Lease, std::decay_t<Handler>>;
    const std::int64_t lease = new_lease_number(*core);
    units_of(asked) = lease;
    entered in{core, lease, {}, std::chrono::steady_clock::now(), {}};
    check_operation<typename Arguments::check_type, wrapped>::start(
        wrapped{std::move(in), std::forward<Handler>(handler)}, std::shared_ptr(core),
        std::move(asked));
  }

 private:
  static std::int64_t& units_of(arguments_of<lease_request>& a) { return a.units; }
  static std::int64_t& units_of(joint_arguments_of<lease_request>& a) { return a.first.units; }
};

}  // namespace weir::detail

template <template <class, class> class Associator, class Lease, class Handler, class Default>
struct boost::asio::associator<Associator, weir::detail::enter_handler<Lease, Handler>, Default>
    : Associator<Handler, Default> {
  using wrapped = weir::detail::enter_handler<Lease, Handler>;
  static auto get(const wrapped& h) noexcept {
    return Associator<Handler, Default>::get(h.handler);
  }
  static auto get(const wrapped& h, const Default& c) noexcept {
    return Associator<Handler, Default>::get(h.handler, c);
  }
};
