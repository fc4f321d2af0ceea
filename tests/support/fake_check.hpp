#pragma once

#include <boost/asio/system_executor.hpp>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/check_list.hpp"
#include "check/limiter_spec.hpp"

namespace weir::test {

/// A store that drops what it is asked: limiters need one for their keys' prefix.
class null_store final : public detail::store_backend {
 public:
  void start(detail::check& c) override { c.finish(detail::delivery::discard); }
  void cancel(detail::check&, detail::cancel_scope) override {}
  void close() override {}
  boost::asio::any_io_executor get_executor() const noexcept override {
    return boost::asio::system_executor();
  }
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

/// A check whose caller is the test.
class fake_check final : public detail::check {
 public:
  fake_check(core_ptr core, std::string_view subject, std::int64_t units = 1,
             detail::check_kind what = detail::check_kind::record,
             std::chrono::microseconds limit = std::chrono::microseconds{0},
             std::vector<detail::term> further = {})
      : check(std::move(core), detail::request{what, detail::short_text(subject), units, limit,
                                               std::move(further)}) {}

  void finish(detail::delivery) override { ++finished; }

  int finished = 0;
};

}  // namespace weir::test
