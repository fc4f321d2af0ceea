#include "feedback/structured_field.hpp"

#include "text/ascii.hpp"

namespace weir::feedback {
namespace {

constexpr bool one_of(char c, std::string_view set) noexcept {
  return set.find(c) != std::string_view::npos;
}
constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

constexpr bool is_key_start(char c) noexcept { return text::is_lower(c) || c == '*'; }
constexpr bool is_key_char(char c) noexcept {
  return text::is_lower(c) || text::is_digit(c) || one_of(c, "_-.*");
}
constexpr bool is_token_start(char c) noexcept { return text::is_letter(c) || c == '*'; }
constexpr bool is_token_char(char c) noexcept {
  return text::is_letter(c) || text::is_digit(c) || one_of(c, "!#$%&'*+-.^_`|~:/");
}
constexpr bool is_base64(char c) noexcept {
  return text::is_letter(c) || text::is_digit(c) || one_of(c, "+/=");
}

}  // namespace

bool structured_reader::fail() noexcept {
  failed_ = true;
  rest_ = {};
  return false;
}

bool structured_reader::take(char c) noexcept {
  if (!rest_.starts_with(c)) return false;
  rest_.remove_prefix(1);
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
  if (rest_.empty() || !is_key_start(rest_.front())) return false;
  key = take_while(is_key_char);
  return true;
}

bool structured_reader::take_string(bare_item& item) noexcept {
  const std::string_view from = rest_;
  while (!rest_.empty() && rest_.front() != '"') {
    if (take('\\') && !(rest_.starts_with('"') || rest_.starts_with('\\'))) return fail();
    const auto byte = static_cast<unsigned char>(rest_.front());
    if (byte < 0x20 || byte > 0x7e) return fail();
    rest_.remove_prefix(1);
  }
  item.is = bare_item::kind::text;
  item.text = from.substr(0, from.size() - rest_.size());
  return take('"') || fail();
}

bool structured_reader::take_bytes() noexcept {
  take_while(is_base64);
  return take(':') || fail();
}

bool structured_reader::take_item(bare_item& item) noexcept {
  item = {};
  if (rest_.empty()) return fail();
  if (take('"')) return take_string(item);
  if (take(':')) return take_bytes();
  if (take('?')) return take('0') || take('1') || fail();
  if (is_token_start(rest_.front())) {
    item.is = bare_item::kind::text;
    item.text = take_while(is_token_char);
    return true;
  }
  const bool date = take('@');
  const bool negative = take('-');
  const auto number = take_decimal(rest_);
  if (!number) return fail();
  if (!date && !negative) {
    item.is = bare_item::kind::number;
    item.number = *number;
  }
  return true;
}

bool structured_reader::next_member(keyed_item& member) noexcept {
  keyed_item skipped;
  while (next_parameter(skipped)) {
  }
  if (begun_) {
    take_while(is_blank);
    if (rest_.empty()) return false;
    if (!take(',')) return fail();
    take_while(is_blank);
  } else if (rest_.empty()) {
    return false;
  }
  begun_ = true;

  // "limit=100" is a dictionary member; "limit" alone is a token, or a key without a value.
  const std::string_view start = rest_;
  member = {};
  if (take_key(member.key) && take('=')) return take_item(member.item);
  rest_ = start;
  member.key = {};
  return take_item(member.item);
}

bool structured_reader::next_parameter(keyed_item& parameter) noexcept {
  if (!begun_ || !take(';')) return false;
  while (take(' ')) {
  }
  parameter = {};
  if (!take_key(parameter.key)) return fail();
  return !take('=') || take_item(parameter.item);
}

bool well_formed(std::string_view text) noexcept {
  structured_reader reader{text};
  keyed_item member;
  while (reader.next_member(member)) {
  }
  return !reader.failed();
}

}  // namespace weir::feedback
