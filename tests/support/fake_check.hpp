#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/system_executor.hpp>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/check_list.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"

namespace weir::test {

/// A store that drops what it is asked: limiters need one for their keys' prefix.
class null_store final : public detail::store_backend {
 public:
  null_store() : store_backend(boost::asio::system_executor()) {}

  void start(detail::check& c) override { c.finish(detail::delivery::discard); }
  void cancel(detail::check&, detail::cancel_scope) override {}
  void close() override {}
  bool has_hash_tags() const noexcept override { return true; }
  std::string_view key_prefix() const noexcept override { return "weir"; }
};

using core_ptr = std::shared_ptr<const detail::limiter_spec>;

inline core_ptr make_core(std::string_view resource, const tiers& t,
                          const limiter_options& options = {}) {
  return std::make_shared<detail::limiter_spec>(std::make_shared<null_store>(), resource, t,
                                                options);
}

inline core_ptr make_core(std::string_view resource, const policy& p,
                          const limiter_options& options = {}) {
  return make_core(resource, tiers(p), options);
}

/// A check of any kind whose caller is the test.
class fake_check {
 public:
  using check_kind = detail::check_kind;

  /// `number`: what the kernels get from it, such as the cost; see detail::number_for_kernel.
  fake_check(core_ptr core, std::string_view subject, std::int64_t number = 1,
             check_kind what = check_kind::record,
             std::chrono::microseconds timeout = std::chrono::microseconds{0},
             std::vector<detail::term> further = {})
      : made_(make({std::move(core), subject, timeout, std::move(further)}, what, number)) {
    made_->owner = this;
  }
  fake_check(const fake_check&) = delete;
  fake_check& operator=(const fake_check&) = delete;

  static fake_check& of(detail::check& c) { return *dynamic_cast<part&>(c).owner; }

  detail::check& check() noexcept { return made_->self; }
  const detail::check& check() const noexcept { return made_->self; }
  operator detail::check&() noexcept { return made_->self; }
  operator const detail::check&() const noexcept { return made_->self; }

 private:
  struct arguments {
    core_ptr core;
    std::string_view subject;
    std::chrono::microseconds timeout;
    std::vector<detail::term> further;
  };
  struct part {
    explicit part(detail::check& c) : self(c) {}
    virtual ~part() = default;

    detail::check& self;
    fake_check* owner = nullptr;
  };
  template <class Request>
  struct part_of final : detail::joint_check_of<Request>, part {
    part_of(arguments&& with, Request&& asked)
        : detail::joint_check_of<Request>(std::move(with.core), {{detail::short_text(with.subject),
                                                                  with.timeout, std::move(asked)},
                                                                 std::move(with.further)}),
          part(static_cast<detail::check&>(*this)) {}

    void finish(detail::delivery) override { ++owner->finished; }
  };

  static std::unique_ptr<part> make(arguments&& with, check_kind what, std::int64_t number) {
    const auto made = [&]<class Request>(Request asked) -> std::unique_ptr<part> {
      return std::make_unique<part_of<Request>>(std::move(with), std::move(asked));
    };
    switch (what) {
      case check_kind::record:
        return made(detail::record_request{number});
      case check_kind::fetch:
        return made(detail::fetch_request{number});
      case check_kind::reset:
        return made(detail::reset_request{});
      case check_kind::cool_down:
        return made(detail::cool_down_request{std::chrono::microseconds(number)});
      case check_kind::acquire:
        return made(detail::acquire_request{.cost = number});
      case check_kind::give_back:
        return made(detail::give_back_request{.cost = number});
      case check_kind::settle: {
        detail::settle_request asked;
        asked.about.receipt.costs[0] = number;
        return made(std::move(asked));
      }
      case check_kind::lower:
        return made(detail::lower_request{number});
      case check_kind::enter:
        return made(detail::enter_request{number});
      case check_kind::renew:
        return made(detail::renew_request{number});
      case check_kind::leave:
        return made(detail::leave_request{number});
      case check_kind::watch:
        break;
    }
    return made(detail::watch_request{number});
  }

  const std::unique_ptr<part> made_;

 public:
  int finished = 0;

  // The check's own.
  const check_kind kind = check().kind;
  error_code& ec = check().ec;
  decision& answer = check().answer;
  const detail::short_text& subject = check().subject;
  const detail::check_stage& stage = detail::flight_of(check()).stage;
  const std::uint32_t& position = detail::flight_of(check()).position;
  detail::queued_waiter* const& queued = detail::flight_of(check()).queued;
  detail::check::steady_time& deadline = detail::flight_of(check()).deadline;
  const detail::check::steady_time& sent = detail::flight_of(check()).sent;
};

inline bool done_with(const fake_check& c, error_code ec) {
  return c.stage == detail::check_stage::done && c.ec == ec;
}

}  // namespace weir::test
