#pragma once

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/detail/request.hpp"
#include "weir/detail/short_text.hpp"
#include "weir/error.hpp"

namespace weir::detail {

// The resource, policy and store of one limiter; defined in src/check/limiter_spec.hpp.
struct limiter_spec;

/// The longest subject. A check with a longer one fails, and does not even copy all of it.
inline constexpr std::size_t max_subject_size = 65'536;

/// Copies the caller's subject. It keeps one byte more than max_subject_size, so that start_check()
/// sees that the subject is too long.
inline short_text copy_of_subject(std::string_view subject) {
  return short_text(subject.substr(0, max_subject_size + 1));
}

/// How the caller gets the result.
enum class delivery : std::uint8_t {
  dispatch,  ///< at once, if the handler's executor is the store's: the calling function runs there
  post,      ///< never inside the calling function
  discard,   ///< not at all: the execution context is shutting down
};

/// Room for what the library notes while a check is in flight (in_flight, src/check/in_flight.hpp).
/// The check makes and destroys that.
class flight_storage {
  friend struct in_flight;

  alignas(std::uint64_t) std::byte bytes_[80];
};

/// The intrusive, type-erased part of an asynchronous operation: one caller that waits for one
/// answer. Stores link it into their lists and fill in the answer; they never see the handler. The
/// derived check_of has the request.
///
/// A store owns the check from start_check() until it calls finish(), which it does exactly once.
class WEIR_EXPORT check : public flight_storage {
 public:
  using steady_time = std::chrono::steady_clock::time_point;

  check(const check&) = delete;
  check& operator=(const check&) = delete;

  /// Hands the result to the caller and destroys this object.
  virtual void finish(delivery how) = 0;

  /// The further limiters of a joint check: all limiters count it, or none does.
  std::span<const term> further() const noexcept {
    return further_ == nullptr ? std::span<const term>{} : std::span<const term>(*further_);
  }

  /// Gives up the limiters, which may hold the last handle of the store.
  void release_limiters() noexcept { limiter.reset(); }

  const check_kind kind;
  bool at_store = false;  // the handler's executor is the store's
  // The address of the caller's arguments, which may be gone. If the caller is a coroutine that
  // awaits the call, they stand in its frame.
  const std::uintptr_t asked_at;

 protected:
  const std::vector<term>* further_ = nullptr;  // in the derived joint_check_of

 public:
  // Arguments that every call has.
  std::shared_ptr<const limiter_spec> limiter;
  std::chrono::microseconds timeout;  // 0: the store's default
  short_text subject;

  // The answer.
  error_code ec;
  union {
    decision answer;  // made by the constructor in fewer steps than by decision's own initialisers
  };

 protected:
  check(check_kind what, std::shared_ptr<const limiter_spec>&& owner, short_text&& name,
        std::chrono::microseconds deadline_from_now) noexcept;
  ~check();
};

template <class Request>
class check_of;
template <class Request>
class joint_check_of;

/// The arguments of one call.
template <class Request>
struct arguments_of {
  using check_type = check_of<Request>;
  short_text subject = {};
  std::chrono::microseconds timeout{0};
  Request asked = {};
};

/// A check with its request.
template <class Request>
class check_of : public check {
 public:
  using arguments = arguments_of<Request>;
  static constexpr check_kind kind_of = Request::kind;

  Request asked;

 protected:
  check_of(std::shared_ptr<const limiter_spec>&& owner, arguments&& with) noexcept
      : check(Request::kind, std::move(owner), std::move(with.subject), with.timeout),
        asked(std::move(with.asked)) {}
  ~check_of() = default;
};

template <class Request>
struct joint_arguments_of {
  using check_type = joint_check_of<Request>;
  arguments_of<Request> first = {};
  std::vector<term> further = {};
};

/// A check that may have further limiters.
template <class Request>
class joint_check_of : public check_of<Request> {
 public:
  using arguments = joint_arguments_of<Request>;

  void release_limiters() noexcept {
    this->limiter.reset();
    terms_.clear();
  }

 protected:
  joint_check_of(std::shared_ptr<const limiter_spec>&& owner, arguments&& with) noexcept
      : check_of<Request>(std::move(owner), std::move(with.first)),
        terms_(std::move(with.further)) {
    this->further_ = &terms_;
  }
  ~joint_check_of() = default;

 private:
  std::vector<term> terms_;
};

/// The request of a check of that kind.
template <class Request>
Request& as(check& c) noexcept {
  assert(c.kind == Request::kind);
  return static_cast<check_of<Request>&>(c).asked;
}
template <class Request>
const Request& as(const check& c) noexcept {
  assert(c.kind == Request::kind);
  return static_cast<const check_of<Request>&>(c).asked;
}

/// Validates the check and hands it to its limiter's queue (acquire) or store. The handler never
/// runs inside this call.
WEIR_EXPORT void start_check(check& c);

enum class cancel_scope : std::uint8_t {
  any,         ///< end the call, whether the check was sent or not
  only_unsent  ///< end it only while the check is unsent (Asio's `total`)
};

/// When the check was last encoded; zero: never, or by a memory store.
WEIR_EXPORT std::chrono::steady_clock::time_point sent_at(const check& c) noexcept;

/// Finishes the check with operation_aborted, unless it is done already or the scope forbids it.
WEIR_EXPORT void cancel_check(check& c, cancel_scope scope);

}  // namespace weir::detail
