#include "weir/rate.hpp"

#include <boost/system/system_error.hpp>

#include <optional>

#include "text/duration_text.hpp"
#include "text/quoted.hpp"

namespace weir {
namespace {

std::optional<rate> read_rate(text::text_reader& reader) noexcept {
  const auto read = reader.rate();
  return read && reader.end() ? read : std::nullopt;
}

}  // namespace

rate rate::parse(std::string_view text) {
  text::text_reader reader{text};
  if (const auto parsed = read_rate(reader)) return *parsed;
  throw boost::system::system_error(make_error_code(error::invalid_rate),
                                    "rate " + text::quoted(text) + ", at character " +
                                        std::to_string(reader.position() + 1) + ": expected " +
                                        reader.expected());
}

boost::system::result<rate> rate::try_parse(std::string_view text) noexcept {
  text::text_reader reader{text};
  if (const auto parsed = read_rate(reader)) return *parsed;
  return make_error_code(error::invalid_rate);
}

std::string to_string(const rate& r) {
  const auto [count, unit] = text::scale(r.period);
  std::string out = std::to_string(r.count);
  if (count == 1) return out + '/' + (std::string_view{unit} == "d" ? "day" : unit);
  return out + " per " + std::to_string(count) + unit;
}

}  // namespace weir
