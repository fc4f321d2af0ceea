// What a response says of limits: never out of bounds, and told the same in any order and twice.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_input.hpp"
#include "support/response_text.hpp"

namespace {

using std::chrono::microseconds;
using weir::header_field;
using weir::vendor_feedback;
using weir::fuzz::require;

void require_bounds(const std::optional<microseconds>& time) {
  require(!time || (time->count() >= 0 && *time <= weir::longest_feedback));
}

void require_bounds(const weir::vendor_quota& quota) {
  require(quota.remaining.value_or(0) >= 0 && quota.limit.value_or(0) >= 0);
  require_bounds(quota.reset_after);
}

void require_sense(const vendor_feedback& feedback, int status, bool retry_after_decides) {
  require_bounds(feedback.blocked_for);
  require(feedback.blocked_for.has_value() == (feedback.source != weir::feedback_source::none));
  require(status != 429 || feedback.refused);
  for (const auto& quota : {feedback.requests, feedback.tokens}) {
    require_bounds(quota);
    const bool blocks = status == 429 || status == 403;  // others may not
    if (blocks && quota.remaining == 0 && quota.reset_after) {
      require(feedback.blocked_for &&
              (retry_after_decides || feedback.blocked_for >= quota.reset_after));
    }
  }
}

}  // namespace

// The first line: the status, a digit for the options, and the clock in seconds; then the headers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto response = weir::test::read_response(text);

  unsigned choice = 0;
  std::int64_t clock = 0;
  std::string_view line = response.first_line;
  if (line.starts_with(' ')) line.remove_prefix(1);
  auto parsed = std::from_chars(line.begin(), line.end(), choice);
  if (parsed.ptr != line.end()) std::from_chars(parsed.ptr + 1, line.end(), clock);
  const weir::feedback_options options{.reset = static_cast<weir::reset_unit>(choice / 2 % 5),
                                       .retry_after_decides = choice % 2 == 1};
  // Wraps around for absurd clocks, which are as good as any.
  const weir::time_point now{
      microseconds{static_cast<std::int64_t>(static_cast<std::uint64_t>(clock) * 1'000'000)}};

  std::vector<header_field> headers = response.headers;
  const auto read = [&] { return weir::read_feedback(response.status, headers, now, options); };
  const vendor_feedback feedback = read();
  require_sense(feedback, response.status, options.retry_after_decides);

  std::ranges::reverse(headers);
  require(read() == feedback);
  headers.insert(headers.end(), response.headers.begin(), response.headers.end());
  require(read() == feedback);

  // Whatever the rest, an error that says to come back later is never a shorter pause.
  if (response.status >= 400 && response.status <= 599) {
    headers.push_back({"Retry-After", "60"});
    const auto sooner = read();
    headers.back().value = "3600";
    const auto later = read();
    require(sooner.refused && sooner.blocked_for >= std::chrono::seconds{60});
    require(later.refused && later.blocked_for >= sooner.blocked_for);
    require(later.requests == feedback.requests && later.tokens == feedback.tokens);
  }
  return 0;
}
