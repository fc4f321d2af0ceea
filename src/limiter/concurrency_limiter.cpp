#include "weir/concurrency_limiter.hpp"
#include "check/store_backend.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <mutex>
#include <stdexcept>

#include "limiter/limiter_impl.hpp"
#include "weir/record_all.hpp"

namespace weir {

namespace asio = boost::asio;

namespace {

/// Waits for the loss of a lease and then emits the signal that cancel_when_lost() got last. The
/// keeper owns it while it waits, and then the function that emits; the lease only refers to it.
class loss_watch final : public detail::watch_check {
 public:
  loss_watch(const std::shared_ptr<const detail::limiter_spec>& core, std::int64_t lease)
      : watch_check(std::shared_ptr(core), detail::watch_arguments(lease)) {}

  static void start(std::shared_ptr<loss_watch> self) {
    loss_watch& watch = *self;
    watch.self_ = std::move(self);
    start_check(watch);
  }

  /// Replaces the signal, which may be null, and its executor. False if the wait is over: then
  /// nothing is emitted, and another watch is needed.
  bool aim_at(asio::cancellation_signal* signal, asio::any_io_executor where) {
    const std::lock_guard lock(mutex_);
    signal_ = is_over_ ? nullptr : signal;
    if (!is_over_) executor_.swap(where);
    return !is_over_;
  }

  void finish(detail::delivery how) override {
    const std::shared_ptr<loss_watch> self = std::move(self_);
    release_limiters();
    asio::any_io_executor last;
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    last.swap(executor_);
    if (how == detail::delivery::discard || ec || signal_ == nullptr) return;
    // Inside the lock: the executor is not used after aim_at() has replaced it.
    asio::post(last, [self] {
      if (asio::cancellation_signal* const signal = self->take_signal()) {
        signal->emit(asio::cancellation_type::terminal);
      }
    });
  }

 private:
  asio::cancellation_signal* take_signal() {
    const std::lock_guard lock(mutex_);
    return std::exchange(signal_, nullptr);
  }

  std::shared_ptr<loss_watch> self_;  // until finish()
  std::mutex mutex_;
  // The mutex guards all members below.
  asio::cancellation_signal* signal_ = nullptr;
  asio::any_io_executor executor_;
  bool is_over_ = false;
};

}  // namespace

lease::lease(detail::entered&& in, const error_code& ec, const joint_decision& answer) {
  if (!ec) decision_ = answer;
  const auto sent = std::max(in.sent, in.started);
  if (decision_.allowed) {
    core_ = std::move(in.core);
    number_ = in.lease;
    detail::impl_of(*core_).leases->add(core_, number_, std::move(in.subject), sent);
  } else if (ec == condition::may_have_counted ||
             (ec == asio::error::operation_aborted && sent == in.sent)) {
    // The store may still run the enter; the leave follows it and ends that lease.
    detail::impl_of(*in.core).leases->give_back(in.core, in.lease, std::move(in.subject));
  }
}

lease::lease(lease&& other) noexcept
    : core_(std::move(other.core_)),
      number_(other.number_),
      released_(std::exchange(other.released_, false)),
      decision_(std::exchange(other.decision_, {})),
      watch_(std::move(other.watch_)) {}

lease& lease::operator=(lease&& other) noexcept {
  lease moved(std::move(other));
  std::swap(core_, moved.core_);
  std::swap(number_, moved.number_);
  std::swap(released_, moved.released_);
  std::swap(decision_, moved.decision_);
  std::swap(watch_, moved.watch_);
  return *this;
}

limiter_stats concurrency_limiter::stats() const { return detail::impl_of(*core_).stats(); }

bool lease::is_held() const noexcept {
  return core_ != nullptr && detail::impl_of(*core_).leases->is_held(number_);
}

void lease::release() noexcept {
  if (const auto watch = std::static_pointer_cast<loss_watch>(watch_.lock())) {
    watch->aim_at(nullptr, {});
  }
  watch_.reset();
  if (core_ == nullptr) return;
  released_ = true;
  try {
    detail::impl_of(*core_).leases->release(core_, number_);
  } catch (const std::exception&) {
    // Without memory for the leave, the lease lapses: it is not renewed any more.
  }
}

const std::shared_ptr<const detail::limiter_spec>& lease::holder() const {
  if (core_ == nullptr)
    throw std::logic_error("weir: this lease was not granted, so it cannot be lost");
  return core_;
}

void lease::cancel_when_lost(asio::cancellation_signal& signal,
                             const asio::any_io_executor& executor) {
  holder();
  const asio::any_io_executor busy = asio::prefer(executor,
                                                  asio::execution::outstanding_work.tracked);
  // One watch serves all calls: a lease may be held for days, with many calls.
  auto watch = std::static_pointer_cast<loss_watch>(watch_.lock());
  if (watch != nullptr && watch->aim_at(&signal, busy)) return;
  watch = std::make_shared<loss_watch>(core_, number_);
  watch->aim_at(&signal, busy);
  watch_ = watch;
  loss_watch::start(std::move(watch));
}

concurrency_limiter::concurrency_limiter(const weir::store& store, std::string_view resource,
                                         const concurrency_options& options) try
    : core_(std::make_shared<detail::limiter_impl>(store.backend(), resource, options)) {
} catch (const boost::system::system_error& e) {
  detail::rethrow_with_name(e, resource);
}

std::string_view concurrency_limiter::resource() const noexcept { return core_->resource; }

asio::any_io_executor concurrency_limiter::get_executor() const noexcept {
  return core_->store->get_executor();
}

concurrency_limiter::joint_arguments concurrency_limiter::ask_jointly(std::string_view subject,
                                                                      std::span<const claim> also,
                                                                      enter_options options) {
  joint_arguments asked{ask(subject, options)};
  if (also.empty()) return asked;
  detail::joint_call limiters = detail::join(also);
  std::vector<detail::term>& terms = asked.further.terms;
  terms.push_back({std::move(limiters.core), std::move(limiters.subject), limiters.cost});
  for (detail::term& t : limiters.further.terms) terms.push_back(std::move(t));
  return asked;
}

std::int64_t detail::new_lease_number(const limiter_spec& core) noexcept {
  return impl_of(core).leases->new_number();
}

}  // namespace weir
