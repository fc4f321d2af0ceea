#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/system_executor.hpp>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/flight.hpp"
#include "check/give_back.hpp"
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

/// What a fake check asks.
struct fake_request {
  fake_request(detail::check_kind what) : kind(what) {}
  fake_request(detail::settle_cause why) : kind(detail::check_kind::settle), cause(why) {}
  fake_request(detail::lease_act what) : kind(detail::check_kind::lease), act(what) {}

  detail::check_kind kind;
  detail::settle_cause cause = detail::settle_cause::actual_cost;
  detail::lease_act act = detail::lease_act::enter;
};

/// A check of any kind whose caller is the test.
class fake_check {
 public:
  using check_kind = detail::check_kind;

  /// `number`: check::units of a check that start_check() has prepared.
  fake_check(core_ptr core, std::string_view subject, std::int64_t number = 1,
             fake_request what = check_kind::record,
             std::chrono::microseconds timeout = std::chrono::microseconds{0},
             std::vector<detail::term> further = {})
      : made_(make({std::move(core), subject, timeout, number, std::move(further)}, what)) {
    made_->owner = this;
  }
  fake_check(const fake_check&) = delete;
  fake_check& operator=(const fake_check&) = delete;

  static fake_check& of(detail::check& c) { return *dynamic_cast<part&>(c).owner; }

  detail::check& check() noexcept { return made_->self; }
  const detail::check& check() const noexcept { return made_->self; }
  operator detail::check&() noexcept { return made_->self; }
  operator const detail::check&() const noexcept { return made_->self; }
  /// True while a call of acquire() has no result.
  bool is_in_room() const noexcept {
    return check().flight.room.place != detail::room_note::outside;
  }

 private:
  struct arguments {
    core_ptr core;
    std::string_view subject;
    std::chrono::microseconds timeout;
    std::int64_t number;
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
        : detail::joint_check_of<Request>(
              std::move(with.core),
              {{detail::short_text(with.subject), with.timeout, with.number, std::move(asked)},
               {std::move(with.further)}}),
          part(static_cast<detail::check&>(*this)) {}

    void finish(detail::delivery) override { ++owner->finished; }
  };

  static std::unique_ptr<part> make(arguments&& with, fake_request what) {
    const auto made = [&]<class Request>(Request asked) -> std::unique_ptr<part> {
      return std::make_unique<part_of<Request>>(std::move(with), std::move(asked));
    };
    switch (what.kind) {
      case check_kind::record:
        return made(detail::record_request{});
      case check_kind::fetch:
        return made(detail::fetch_request{});
      case check_kind::acquire:
        return made(detail::acquire_request{});
      case check_kind::settle:
        // Each give-back of the library has an id of its own.
        return made(detail::settle_request{
            .cause = what.cause,
            .id = what.cause == detail::settle_cause::give_back ? next_id() : 0});
      case check_kind::lease:
        return made(detail::lease_request{what.act});
      case check_kind::cool_down:
        return made(detail::cool_down_request{});
      case check_kind::reset:
        break;
    }
    return made(detail::reset_request{});
  }

  static std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{1'000'000};
    return ++last;
  }

  const std::unique_ptr<part> made_;

 public:
  int finished = 0;

  // The check's own.
  const check_kind kind = check().kind;
  error_code& ec = check().ec;
  decision& answer = check().answer;
  const detail::short_text& subject = check().subject;
  const detail::check_stage& stage = check().flight.stage;
  const std::uint32_t& position = check().flight.position;
  detail::check::steady_time& deadline = check().flight.deadline;
  const detail::check::steady_time& sent = check().flight.sent;
};

/// What gives back the reservation of an acquire.
inline detail::taken_units taken_by(const fake_check& c) {
  const detail::check& own = c.check();
  return {.limiter = own.limiter,
          .subject = own.subject,
          .units = own.units,
          .about = {own.answer,
                    own.further_taken() == nullptr ? further_receipt{} : *own.further_taken()},
          .further = {own.further().begin(), own.further().end()},
          .found = detail::as<detail::acquire_request>(own).found};
}

inline bool done_with(const fake_check& c, error_code ec) {
  return c.stage == detail::check_stage::done && c.ec == ec;
}

}  // namespace weir::test
