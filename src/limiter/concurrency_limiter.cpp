#include "weir/concurrency_limiter.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <mutex>
#include <stdexcept>

#include "limiter/limiter_impl.hpp"
#include "weir/record_all.hpp"

namespace weir {

namespace asio = boost::asio;

namespace {

/// What cancel_when_lost() emits on. The lease owns it, and one pending lost() uses it.
class loss_target {
 public:
  loss_target(asio::cancellation_signal& first, const asio::any_io_executor& where)
      : executor_(where), signal_(&first) {}

  /// False if a further lost() is needed.
  bool replace(asio::cancellation_signal& other, const asio::any_io_executor& where) {
    const std::lock_guard lock(mutex_);
    if (is_used_up_ || executor_ != where) return false;
    signal_ = &other;
    return true;
  }
  /// Called when lost() completes.
  asio::cancellation_signal& use_up() {
    const std::lock_guard lock(mutex_);
    is_used_up_ = true;
    return *signal_;
  }

 private:
  const asio::any_io_executor executor_;
  std::mutex mutex_;
  asio::cancellation_signal* signal_;
  bool is_used_up_ = false;
};

}  // namespace

lease::lease(detail::entered&& in, const error_code& ec, const weir::decision& answer) {
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
      decision_(std::exchange(other.decision_, {})),
      guard_(std::move(other.guard_)) {}

lease& lease::operator=(lease&& other) noexcept {
  lease moved(std::move(other));
  std::swap(core_, moved.core_);
  std::swap(number_, moved.number_);
  std::swap(decision_, moved.decision_);
  std::swap(guard_, moved.guard_);
  return *this;
}

bool lease::is_held() const {
  return core_ != nullptr && detail::impl_of(*core_).leases->is_held(number_);
}

void lease::release() noexcept {
  guard_.reset();
  if (core_ == nullptr) return;
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
  // A lease may be held for days and each of its works may call this: one lost() serves them all.
  const auto kept = std::static_pointer_cast<loss_target>(guard_);
  if (kept != nullptr && kept->replace(signal, executor)) return;
  const auto target = std::make_shared<loss_target>(signal, executor);
  guard_ = target;
  lost(asio::bind_executor(executor, [weak = std::weak_ptr(target)](error_code ec) {
    const auto still = weak.lock();
    if (still == nullptr) return;
    asio::cancellation_signal& last = still->use_up();
    if (!ec) last.emit(asio::cancellation_type::terminal);
  }));
}

concurrency_limiter::concurrency_limiter(const weir::store& store, std::string_view resource,
                                         const concurrency_options& options)
    : core_(std::make_shared<detail::limiter_impl>(store.backend(), resource, options)) {}

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
  asked.further.push_back({std::move(limiters.core), std::move(limiters.subject), limiters.cost});
  for (detail::term& t : limiters.further) asked.further.push_back(std::move(t));
  return asked;
}

std::int64_t detail::new_lease_number(const limiter_spec& core) noexcept {
  return impl_of(core).leases->new_number();
}

}  // namespace weir
