#include "redis/resp/resp_reader.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "text/ascii.hpp"

namespace weir::redis {
namespace {

using text::is_digit;

constexpr std::ptrdiff_t max_digits = 19;  // any such number fits 64 bits unsigned

bool is_decimal(std::string_view text) noexcept {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Checks only the alphabet of a double ("1.5e-7", "inf", "nan"), not its grammar: code that needs
// the value converts it.
bool looks_like_double(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789+-.eEinfa") == text.npos;
}

enum class scan : std::uint8_t { done, starved, broken };

// Digits, CR, LF. At `done`, `at` is behind them.
inline scan scan_number(const char*& at, const char* end, std::uint64_t& number) noexcept {
  const char* const limit = end - at > max_digits ? at + max_digits : end;
  const char* p = at;
  std::uint64_t value = 0;
  for (; p != limit && is_digit(*p); ++p) value = value * 10 + static_cast<std::uint64_t>(*p - '0');
  if (p == end) return scan::starved;
  if (*p != '\r' || p == at || (*at == '0' && p - at > 1)) return scan::broken;
  if (p + 1 == end) return scan::starved;
  if (p[1] != '\n') return scan::broken;
  at = p + 2;
  number = value;
  return scan::done;
}

}  // namespace

bool reply_view::integers(std::span<std::int64_t> out) const noexcept {
  // One value per element means that no element is an aggregate with children.
  if (root().type != reply_type::array || values_.size() != out.size() + 1) return false;
  bool all = root().integer == static_cast<std::int64_t>(out.size());
  for (std::size_t i = 0; i != out.size(); ++i) {
    all &= values_[i + 1].type == reply_type::integer;
    out[i] = values_[i + 1].integer;
  }
  return all;
}

std::size_t reply_view::after(std::size_t index) const noexcept {
  for (std::size_t open = 1; open != 0; ++index) {
    const reply_value& n = values_[index];
    if (n.type >= reply_type::array) open += static_cast<std::size_t>(n.integer);
    --open;
  }
  return index;
}

std::string_view reply_view::text_at(std::size_t index, std::string_view key) const noexcept {
  const std::size_t end = after(index);
  for (std::size_t at = index + 1; at < end;) {
    const std::size_t value = after(at);
    if (value >= end) break;
    if (values_[at].text == key) return values_[value].text;
    at = after(value);
  }
  return {};
}

const reply_view* reply_reader::next(error_code& ec) {
  if (failure_ == nullptr) {
    outcome result;
    try {
      result = parse();
    } catch (...) {
      failure_ = "out of memory inside a reply";
      throw;
    }
    if (result != outcome::broken) {
      ec.clear();
      return result == outcome::replied ? &view_ : nullptr;
    }
  }
  ec = make_error_code(error::protocol_error);
  return nullptr;
}

reply_reader::outcome reply_reader::parse() {
  if (begin_ == end_) return outcome::starved;
  if (!in_reply_) {
    in_reply_ = true;
    count_ = 0;
    announced_ = 1;
  }
  const char* const start = data_.get() + pos_;
  const char* const end = data_.get() + end_;
  const char* at = start;
  outcome result;
  do {
    result = state_ == state::value ? read_value(at, end) : resume(at, end);
  } while (result == outcome::going);

  pos_ += static_cast<std::size_t>(at - start);
  work_ += static_cast<std::uint64_t>(at - start);
  if (result == outcome::broken) return result;
  if (pos_ - begin_ > limits_.max_reply_bytes) return broken("reply too long");
  if (result == outcome::replied) {
    begin_ = pos_;
    in_reply_ = false;
    view_.values_ = {values_.data(), count_};
  } else if (state_ == state::value) {
    work_ += static_cast<std::uint64_t>(end - at);  // an unfinished number, which is read again
  }
  return result;
}

inline void reply_reader::add(reply_type type, std::int64_t integer, std::string_view text) {
  if (count_ == values_.size()) values_.resize(std::max<std::size_t>(16, 2 * count_));
  reply_value& n = values_[count_++];
  n.type = type;
  n.integer = integer;
  n.text = text;
}

reply_reader::outcome reply_reader::resume(const char*& at, const char* end) {
  return state_ == state::line ? read_line(at, end) : read_bulk(at, end);
}

reply_reader::outcome reply_reader::read_value(const char*& at, const char* end) {
  if (at == end) return outcome::starved;
  switch (*at) {
    case ':':
      return read_integer(at, end);
    case '*':
      type_ = reply_type::array;
      return open_aggregate(at, end);
    case '$':
      type_ = reply_type::bulk_string;
      return open_bulk(at, end);
    case '+':
      type_ = reply_type::simple_string;
      break;
    case '-':
      type_ = reply_type::error;
      break;
    case ',':
      type_ = reply_type::number;
      break;
    case '(':
      type_ = reply_type::big_number;
      break;
    case '_':
    case '#':
      return read_fixed(at, end);
    case '!':
      type_ = reply_type::bulk_error;
      return open_bulk(at, end);
    case '=':
      type_ = reply_type::verbatim_string;
      return open_bulk(at, end);
    case '%':
      type_ = reply_type::map;
      return open_aggregate(at, end);
    case '~':
      type_ = reply_type::set;
      return open_aggregate(at, end);
    case '|':
      type_ = reply_type::attribute;
      return open_aggregate(at, end);
    case '>':
      if (!stack_.empty()) return broken("push inside a reply");
      type_ = reply_type::push;
      return open_aggregate(at, end);
    case ';':
    case '.':
      return broken("streamed types are not supported");
    default:
      return broken("unknown type byte");
  }
  ++at;
  scanned_ = 0;
  state_ = state::line;
  return read_line(at, end);
}

reply_reader::outcome reply_reader::read_integer(const char*& at, const char* end) {
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const char* p = at + 1;
  if (p == end) return outcome::starved;
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  std::uint64_t number = 0;
  const scan scanned = scan_number(p, end, number);
  if (scanned == scan::starved) return outcome::starved;
  if (scanned == scan::broken) return broken("not an integer");
  if (number > max + (negative ? 1 : 0)) return broken("integer beyond 64 bits");
  // Negated while unsigned: the least integer has no positive counterpart.
  add(reply_type::integer, static_cast<std::int64_t>(negative ? 0 - number : number));
  at = p;
  return close_value();
}

// Reads the values of fixed length: null and the booleans.
reply_reader::outcome reply_reader::read_fixed(const char*& at, const char* end) {
  const bool boolean = *at == '#';
  const std::ptrdiff_t size = boolean ? 4 : 3;
  if (end - at < size) return outcome::starved;
  if (boolean && at[1] != 't' && at[1] != 'f') return broken("not a boolean");
  if (at[size - 2] != '\r' || at[size - 1] != '\n') return broken("bad terminator");
  add(boolean ? reply_type::boolean : reply_type::null, boolean && at[1] == 't' ? 1 : 0);
  at += size;
  return close_value();
}

// Reads the length after a type byte; moves `at` and returns `going` only if all of it is there.
reply_reader::outcome reply_reader::read_length(const char*& at, const char* end,
                                                std::uint64_t& length, bool& null) {
  const char* p = at + 1;
  if (p == end) return outcome::starved;
  if (*p == '?') return broken("streamed types are not supported");
  null = *p == '-' && (type_ == reply_type::bulk_string || type_ == reply_type::array);
  if (null) ++p;
  switch (scan_number(p, end, length)) {
    case scan::done:
      break;
    case scan::starved:
      return outcome::starved;
    case scan::broken:
      return broken("not a length");
  }
  if (null && length != 1) return broken("negative length");
  at = p;
  return outcome::going;
}

reply_reader::outcome reply_reader::open_aggregate(const char*& at, const char* end) {
  std::uint64_t length = 0;
  bool null = false;
  if (const outcome o = read_length(at, end, length, null); o != outcome::going) return o;
  if (null) {
    add(reply_type::null, 0);
    return close_value();
  }
  // Checked before any allocation or multiplication with it.
  if (length > limits_.max_values) return broken("too many values");
  const bool attribute = type_ == reply_type::attribute;
  const auto children = static_cast<std::size_t>(attribute || type_ == reply_type::map ? 2 * length
                                                                                       : length);
  announced_ += children;
  if (announced_ > limits_.max_values) return broken("too many values");
  if (stack_.size() >= limits_.max_depth) return broken("nested too deep");

  if (!attribute) add(type_, static_cast<std::int64_t>(children));
  if (children != 0) {
    stack_.push_back({children, count_, attribute});
    return outcome::going;
  }
  return attribute ? outcome::going : close_value();
}

reply_reader::outcome reply_reader::open_bulk(const char*& at, const char* end) {
  std::uint64_t length = 0;
  bool null = false;
  if (const outcome o = read_length(at, end, length, null); o != outcome::going) return o;
  if (null) {
    add(reply_type::null, 0);
    return close_value();
  }
  const auto used = static_cast<std::size_t>(at - data_.get()) - begin_;
  if (length > limits_.max_bulk) return broken("string too long");
  if (used + length > limits_.max_reply_bytes) return broken("reply too long");
  length_ = static_cast<std::size_t>(length);
  state_ = state::bulk;
  return read_bulk(at, end);
}

reply_reader::outcome reply_reader::read_bulk(const char*& at, const char* end) {
  if (static_cast<std::size_t>(end - at) < length_ + 2) return outcome::starved;
  if (at[length_] != '\r' || at[length_ + 1] != '\n') return broken("bad terminator");
  std::string_view text(at, length_);
  if (type_ == reply_type::verbatim_string) {
    if (length_ < 4 || text[3] != ':') return broken("verbatim string without a format");
    text.remove_prefix(4);
  }
  add(type_, 0, text);
  at += length_ + 2;
  state_ = state::value;
  return close_value();
}

reply_reader::outcome reply_reader::read_line(const char*& at, const char* end) {
  const char* const from = at + scanned_;
  // The CR of a line of max_line bytes is the last byte worth looking at.
  const bool long_enough = static_cast<std::size_t>(end - at) > limits_.max_line;
  const char* const limit = long_enough ? at + limits_.max_line + 1 : end;
  const auto* const cr = static_cast<const char*>(
      std::memchr(from, '\r', static_cast<std::size_t>(limit - from)));
  const char* const stop = cr != nullptr ? cr : limit;
  work_ += static_cast<std::uint64_t>(stop - from);
  if (std::memchr(from, '\n', static_cast<std::size_t>(stop - from)) != nullptr)
    return broken("bad terminator");
  if (cr == nullptr && long_enough) return broken("line too long");
  scanned_ = static_cast<std::size_t>(stop - at);
  if (cr == nullptr || cr + 1 == end) return outcome::starved;
  if (cr[1] != '\n') return broken("bad terminator");

  const std::string_view text(at, scanned_);
  if (type_ == reply_type::number && !looks_like_double(text)) return broken("not a number");
  if (type_ == reply_type::big_number && !is_decimal(text)) return broken("not a number");
  add(type_, 0, text);
  at = cr + 2;
  state_ = state::value;
  return close_value();
}

// A value is complete: closes every aggregate that it completes.
reply_reader::outcome reply_reader::close_value() {
  while (!stack_.empty()) {
    frame& top = stack_.back();
    if (--top.remaining != 0) return outcome::going;
    const frame closed = top;
    stack_.pop_back();
    if (closed.attribute) {
      // An attribute is not a value: the value that it describes is still to come.
      count_ = closed.first_value;
      return outcome::going;
    }
  }
  return outcome::replied;
}

reply_reader::outcome reply_reader::broken(const char* why) noexcept {
  failure_ = why;
  return outcome::broken;
}

}  // namespace weir::redis
