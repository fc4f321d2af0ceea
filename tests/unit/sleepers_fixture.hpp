#pragma once

#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "limiter/limiter_impl.hpp"
#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "waiting/sleepers.hpp"

namespace weir::test {

/// Counts the reservations that come back, and keeps requests for reservations, which the test
/// answers.
class counting_store final : public detail::store_backend {
 public:
  struct request {
    detail::check* asked;
    int returned_before;  // how many reservations had come back
  };

  explicit counting_store(asio::io_context& io) : store_backend(io.get_executor()) {}
  void start(detail::check& c) override {
    if (c.kind == detail::check_kind::acquire) {
      requests.push_back({&c, returned});
      if (on_request) on_request();
      return;
    }
    returned += c.kind == detail::check_kind::give_back;
    if (const auto act = std::exchange(meanwhile, nullptr)) act();
    c.finish(detail::delivery::discard);
  }
  void cancel(detail::check&, detail::cancel_scope) override {}
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }

  int returned = 0;
  std::vector<request> requests;
  std::function<void()> on_request;
  std::function<void()> meanwhile;  // what another thread does while the next reservation goes back
};

/// Sleepers, two at most, and checks for them.
struct sleepers_stage {
  asio::io_context io;
  std::shared_ptr<counting_store> store = std::make_shared<counting_store>(io);
  core_ptr core = std::make_shared<detail::limiter_impl>(
      store, "r", tiers(token_bucket{9, per_second(1)}), limiter_options{.cool_downs = true});
  std::shared_ptr<waiting::sleepers> sleeping = std::make_shared<waiting::sleepers>(
      io.get_executor(), 2);
  std::deque<fake_check> checks;

  static void reserve(detail::check& c, std::chrono::microseconds delay) {
    c.answer.allowed = true;
    c.answer.decided_at = time_point(std::chrono::seconds{1'000'000});
    c.answer.delay = delay;
  }
  fake_check& arrive(std::chrono::microseconds max_wait = {}, const char* subject = "a") {
    fake_check& c = checks.emplace_back(core, subject, 1, detail::check_kind::acquire);
    detail::as<detail::acquire_request>(c).max_wait = max_wait;
    sleeping->arrive(c);
    return c;
  }
  /// A check that has arrived, and whose request is answered: with a reservation, and the cool-down
  /// that is left.
  fake_check& with_reservation_in(std::chrono::microseconds delay,
                                  std::chrono::microseconds max_wait = {},
                                  std::chrono::microseconds cool_down_left = {}) {
    const std::size_t before = store->requests.size();
    fake_check& c = arrive(max_wait);
    // The request may wait until reservations have gone back.
    if (store->requests.size() == before)
      run_until(io, [&] { return store->requests.size() > before; });
    detail::check& request = *store->requests.back().asked;
    store->requests.pop_back();
    reserve(request, delay);
    request.answer.receipt.id = 7;
    detail::as<detail::acquire_request>(request).cool_down_left = cool_down_left;
    request.finish(detail::delivery::post);
    return c;
  }
};

}  // namespace weir::test
