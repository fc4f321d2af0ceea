// What a response says of limits: never out of bounds, the same in any order of the headers, and
// the same if equal headers are joined or a header is split at commas. A second in any of its
// forms. The reader of structured fields.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "feedback/structured_field.hpp"
#include "fuzz_input.hpp"
#include "support/date_forms.hpp"
#include "support/response_text.hpp"
#include "text/ascii.hpp"

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

bool is_before(std::string_view a, std::string_view b) {
  const auto less = [](char x, char y) { return weir::text::lower(x) < weir::text::lower(y); };
  return std::ranges::lexicographical_compare(a, b, less);
}

/// In another order, but for the lines of one header.
std::vector<header_field> sorted(std::vector<header_field> headers) {
  std::ranges::stable_sort(headers, is_before, &header_field::name);
  return headers;
}

/// Each header in one line. The values are kept in `values`.
std::vector<header_field> joined(const std::vector<header_field>& headers,
                                 std::deque<std::string>& values) {
  std::vector<header_field> out;
  for (const header_field& h : sorted(headers)) {
    if (!out.empty() && !is_before(out.back().name, h.name)) {
      values.back().append(",").append(h.value);
    } else {
      values.emplace_back(h.value);
      out.push_back(h);
    }
    out.back().value = values.back();
  }
  return out;
}

std::vector<header_field> split(const std::vector<header_field>& headers) {
  std::vector<header_field> out;
  for (header_field h : headers) {
    for (auto comma = h.value.find(','); comma != h.value.npos; comma = h.value.find(',')) {
      out.push_back({h.name, h.value.substr(0, comma)});
      h.value.remove_prefix(comma + 1);
    }
    out.push_back(h);
  }
  return out;
}

/// Reads all that is there, or stops at the first mistake, as a reader that skips everything does.
void require_reading(const weir::feedback::header_lines& lines, std::size_t size) {
  using namespace weir::feedback;
  for (const auto type : {field_type::item, field_type::list, field_type::dictionary,
                          field_type::list_of_any_numbers}) {
    structured_reader reader{lines, type};
    std::size_t count = 0;
    for (keyed_item member; reader.next_member(member); ++count) {
      for (bare_item item; reader.next_item(item); ++count) {
        for (keyed_item parameter; reader.next_parameter(parameter);) ++count;
      }
      for (keyed_item parameter; reader.next_parameter(parameter);) ++count;
    }
    require(count <= size);
    require(reader.failed() != well_formed(lines, type));
  }
}

/// The second is that of the clock, moved to 2000 to 2049.
void require_date(unsigned form, std::int64_t clock) {
  constexpr std::int64_t first = 946'684'800, count = 1'577'923'200;
  const std::int64_t second = first + ((clock - first) % count + count) % count;
  const std::string date = weir::test::date_in_form(static_cast<int>(form), second);
  const header_field header{"Retry-After", date};
  const weir::time_point now{std::chrono::seconds{second - 60}};
  require(weir::read_feedback(503, {&header, 1}, now).blocked_for == std::chrono::seconds{60});
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

  require_date(choice / 10 % unsigned{weir::test::date_forms}, clock / 2);

  std::vector<header_field> headers = response.headers;
  const auto read = [&] { return weir::read_feedback(response.status, headers, now, options); };
  const vendor_feedback feedback = read();
  require_sense(feedback, response.status, options.retry_after_decides);

  std::deque<std::string> values;
  headers = sorted(response.headers);
  require(read() == feedback);
  headers = joined(response.headers, values);
  require(read() == feedback);
  headers = split(response.headers);
  require(read() == feedback);
  for (std::size_t i = 0; i < response.headers.size(); ++i) {
    require_reading({response.headers, i}, size);
  }
  headers = response.headers;

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
