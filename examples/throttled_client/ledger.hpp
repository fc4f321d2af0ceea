#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "../shared/meter.hpp"
#include "vendor_limits.hpp"

namespace throttled {

using examples::vendor_clock;
using examples::vendor_time;

/// What the vendor has seen in the measured time.
struct vendor_report {
  std::int64_t served = 0;

  /// How many calls the vendor would have served to an ideal client, which calls without any delay
  /// whenever one more call is admitted, and leaves `at_once` of the saved-up calls unused. (That
  /// reserve counts once, at the beginning, and not per second.)
  std::int64_t allowance = 0;

  struct {
    std::int64_t per_second = 0;
    std::int64_t rate = 0;
    std::int64_t at_once = 0;
    std::int64_t in_pause = 0;  ///< see ledger::call
    std::int64_t all() const { return per_second + rate + at_once + in_pause; }
  } violations;

  int pauses = 0;
  /// Calls that arrived in a pause before their caller could know of it.
  std::int64_t on_their_way = 0;
  int most_at_once = 0;
  int most_per_second = 0;

  /// The part of the allowance that was used. A call that was on its way when a pause began counts
  /// as used, because its caller could not withdraw it.
  double share() const {
    return static_cast<double>(served + on_their_way) / static_cast<double>(allowance);
  }
};

/// The vendor's books: which calls it admits and refuses, and which of them break its rules. It
/// counts on its own clock, without tolerance: of 121 calls within a second, one is a violation. A
/// violation is refused and uses no allowance.
///
/// The measured time begins with the first call. Calls after its end are answered and not counted.
class ledger {
 public:
  /// `pauses`: when the vendor wants no calls for a second, counted from the beginning. A pause
  /// begins with the next call, which gets a 429.
  ledger(const vendor_limits& limits, std::chrono::seconds measured,
         std::vector<vendor_clock::duration> pauses);

  /// A call as it arrives, with two times that its caller has written into it, by the clock that
  /// all processes of a host share.
  ///
  /// Other callers learn of a pause later than the caller that got the 429, because that caller
  /// reports it to the store. A call in a pause is a violation if its last check of the store began
  /// after the first caller's on_response() had completed. All other calls were on their way, and
  /// there are at most as many of them as may run at once.
  struct call {
    vendor_time asked;  ///< when the last look began; the time of arrival if the call has no time
    /// When the caller's process last completed on_response() for a pause.
    std::optional<vendor_time> heard;
  };
  struct answer {
    bool served = false;
    std::chrono::seconds retry_after{0};  ///< if not served
  };
  answer arrive(vendor_time now, const call& c);

  /// Ends a served call, which counts toward `at_once` until then.
  void leave() { --inside_; }

  /// What is left of each limit, for the response's headers.
  struct balance {
    std::size_t per_second, saved_up;
  };
  balance left(vendor_time now) { return {limits_.second.left(now), limits_.bucket.left(now)}; }

  /// Empty before the first call.
  std::optional<vendor_time> end() const { return end_; }

  /// Call it once the measured time is over.
  vendor_report close();

 private:
  /// Both limits together.
  struct limits {
    examples::window_meter second;
    examples::bucket_meter bucket;

    explicit limits(const vendor_limits& l);
    vendor_time earliest(vendor_time now) {
      return std::max(second.earliest(now), bucket.earliest(now));
    }
    void take(vendor_time now) {
      second.take(now);
      bucket.take(now);
    }
  };
  struct pause {
    vendor_time told, until;
    std::optional<vendor_time> known = {};  // the earliest `heard` of any call
    std::vector<vendor_time> calls = {};    // `asked` of the calls that arrived in the pause
  };

  void begin(vendor_time now);
  bool wants_pause(vendor_time now, const call& c);
  void use_allowance(vendor_time until);

  const vendor_limits rules_;
  const std::chrono::seconds measured_;
  std::vector<vendor_clock::duration> planned_;
  vendor_time start_{};
  std::optional<vendor_time> end_;

  limits limits_;
  int inside_ = 0;
  std::vector<pause> pauses_;

  limits ideal_;
  vendor_time ideal_at_{};

  vendor_report report_;
};

}  // namespace throttled
