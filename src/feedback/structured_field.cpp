#include "feedback/structured_field.hpp"

#include "feedback/utf8_reader.hpp"
#include "text/ascii.hpp"

namespace weir::feedback {
namespace {

using kind = bare_item::kind;

constexpr bool one_of(char c, std::string_view set) noexcept {
  return set.find(c) != std::string_view::npos;
}
constexpr bool is_space(char c) noexcept { return c == ' '; }
constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }
constexpr bool is_padding(char c) noexcept { return c == '='; }

constexpr bool is_key_start(char c) noexcept { return text::is_lower(c) || c == '*'; }
constexpr bool is_key_char(char c) noexcept {
  return text::is_lower(c) || text::is_digit(c) || one_of(c, "_-.*");
}
constexpr bool is_token_start(char c) noexcept { return text::is_letter(c) || c == '*'; }
constexpr bool is_token_char(char c) noexcept {
  return text::is_letter(c) || text::is_digit(c) || one_of(c, "!#$%&'*+-.^_`|~:/");
}
constexpr bool is_base64(char c) noexcept {
  return text::is_letter(c) || text::is_digit(c) || one_of(c, "+/");
}

/// The value of a lower-case hexadecimal digit; 16 for another byte.
constexpr unsigned hex_digit(char c) noexcept {
  const auto place = std::string_view{"0123456789abcdef"}.find(c);
  return place == std::string_view::npos ? 16 : static_cast<unsigned>(place);
}

/// RFC 9651: 15 digits, or 12 before and 3 behind the point.
constexpr bool within_rfc(std::string_view digits) noexcept {
  const auto point = digits.find('.');
  if (point == std::string_view::npos) return digits.size() <= 15;
  return point <= 12 && digits.size() - point - 1 <= 3;
}

}  // namespace

bool bare_item::is_count() const noexcept {
  return (is == kind::integer || is == kind::decimal) && !negative;
}

bool bare_item::is_name() const noexcept { return is == kind::string || is == kind::token; }

std::string_view bare_item::name() const noexcept {
  return trimmed(text.substr(0, text.find(',')));
}

bool structured_reader::fail() noexcept {
  failed_ = true;
  in_list_ = false;
  rest_ = {};
  return false;
}

bool structured_reader::take(char c) noexcept {
  if (!rest_.starts_with(c)) return false;
  rest_.remove_prefix(1);
  return true;
}

/// Takes a comma, or the end of a line before the next one.
bool structured_reader::take_comma() noexcept {
  if (!rest_.empty()) return take(',');
  if (!lines_.next()) return false;
  rest_ = lines_.value();
  return true;
}

template <class Predicate>
std::string_view structured_reader::take_while(Predicate accepted) noexcept {
  std::size_t length = 0;
  while (length < rest_.size() && accepted(rest_[length])) ++length;
  const std::string_view taken = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return taken;
}

bool structured_reader::take_key(std::string_view& key) noexcept {
  if (rest_.empty() || !is_key_start(rest_.front())) return fail();
  key = take_while(is_key_char);
  return true;
}

/// Reads the two digits of an escape in a display string.
bool structured_reader::take_escape(unsigned char& byte) noexcept {
  if (rest_.size() < 2) return fail();
  const unsigned high = hex_digit(rest_[0]), low = hex_digit(rest_[1]);
  if (high > 15 || low > 15) return fail();
  byte = static_cast<unsigned char>(high * 16 + low);
  rest_.remove_prefix(2);
  return true;
}

/// Reads a string or a display string behind its first quote.
bool structured_reader::take_string(bare_item& item) noexcept {
  std::string_view from = rest_;
  utf8_reader utf8;
  for (;;) {
    if (rest_.empty()) {  // a comma in the string ends the line
      if (!item.goes_on) item.text = from;
      item.goes_on = true;
      if (!utf8.complete() || !take_comma()) return fail();
      continue;
    }
    const char c = rest_.front();
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) return fail();
    rest_.remove_prefix(1);
    if (c == '"') break;
    if (item.is == kind::string) {
      if (c == '\\' && !take('"') && !take('\\')) return fail();
    } else {
      if (c == '%' && !take_escape(byte)) return false;
      if (!utf8.add(byte)) return fail();
    }
  }
  if (!item.goes_on) item.text = from.substr(0, from.size() - rest_.size() - 1);
  return utf8.complete() || fail();
}

bool structured_reader::take_bytes(bare_item& item) noexcept {
  const std::string_view from = rest_;
  const std::size_t digits = take_while(is_base64).size();
  const std::size_t padding = take_while(is_padding).size();
  item.text = from.substr(0, digits + padding);
  const bool whole = padding == 0 ? digits % 4 != 1 : padding < 3 && (digits + padding) % 4 == 0;
  return (whole && take(':')) || fail();
}

bool structured_reader::take_number(bare_item& item) noexcept {
  const bool is_date = take('@');
  item.negative = take('-');
  const std::string_view from = rest_;
  const auto number = take_decimal(rest_);
  if (!number) return fail();
  const std::string_view digits = from.substr(0, from.size() - rest_.size());
  const bool is_decimal = digits.find('.') != std::string_view::npos;
  if (is_date && is_decimal) return fail();
  if (type_ != field_type::list_of_any_numbers && !within_rfc(digits)) return fail();
  item.is = is_date ? kind::date : is_decimal ? kind::decimal : kind::integer;
  item.number = *number;
  if (number->whole == 0 && number->nanos == 0 && !number->more) item.negative = false;
  return true;
}

bool structured_reader::take_item(bare_item& item) noexcept {
  item = {};
  after_item_ = true;
  if (rest_.empty()) return fail();
  if (take('"')) {
    item.is = kind::string;
    return take_string(item);
  }
  if (take('%')) {
    item.is = kind::display_string;
    return take('"') ? take_string(item) : fail();
  }
  if (take(':')) {
    item.is = kind::bytes;
    return take_bytes(item);
  }
  if (take('?')) {
    item.truth = take('1');
    return item.truth || take('0') || fail();
  }
  if (is_token_start(rest_.front())) {
    item.is = kind::token;
    item.text = take_while(is_token_char);
    return true;
  }
  return take_number(item);
}

/// Reads an item, or the beginning of an inner list.
bool structured_reader::take_value(bare_item& item) noexcept {
  if (!take('(')) return take_item(item);
  item = {};
  item.is = kind::inner_list;
  in_list_ = true;
  after_item_ = false;
  return true;
}

bool structured_reader::next_member(keyed_item& member) noexcept {
  bare_item skipped_item;
  while (next_item(skipped_item)) {
  }
  keyed_item skipped;
  while (next_parameter(skipped)) {
  }
  if (failed_) return false;
  if (!begun_) {
    take_while(type_ == field_type::list_of_any_numbers ? is_blank : is_space);
    if (rest_.empty() && type_ != field_type::item) return take_comma() && fail();
  } else if (type_ == field_type::item) {
    take_while(is_space);
    return (take_comma() || !rest_.empty()) && fail();
  } else {
    take_while(is_blank);
    if (!take_comma()) return !rest_.empty() && fail();
    take_while(is_blank);
  }
  begun_ = true;
  member = {};
  if (type_ == field_type::item) return take_item(member.item);
  if (type_ != field_type::dictionary) return take_value(member.item);
  after_item_ = true;
  return take_key(member.key) && (!take('=') || take_value(member.item));
}

bool structured_reader::next_item(bare_item& item) noexcept {
  if (!in_list_) return false;
  keyed_item skipped;
  while (next_parameter(skipped)) {
  }
  const bool apart = !take_while(is_space).empty() || !after_item_;
  if (take(')')) {
    in_list_ = false;
    after_item_ = true;
    return false;
  }
  return apart ? take_item(item) : fail();
}

bool structured_reader::next_parameter(keyed_item& parameter) noexcept {
  if (!after_item_ || !take(';')) return false;
  take_while(is_space);
  parameter = {};
  if (!take_key(parameter.key)) return false;
  if (!take('=')) return true;
  if (in_list_ || !rest_.starts_with('(')) return take_item(parameter.item);
  take_value(parameter.item);
  bare_item skipped;
  while (next_item(skipped)) {
  }
  return !failed_;
}

bool well_formed(const header_lines& lines, field_type type) noexcept {
  structured_reader reader{lines, type};
  keyed_item member;
  while (reader.next_member(member)) {
  }
  return !reader.failed();
}

}  // namespace weir::feedback
