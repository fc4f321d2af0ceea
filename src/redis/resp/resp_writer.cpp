#include "redis/resp/resp_writer.hpp"

#include <charconv>
#include <cstring>

namespace weir::redis {
namespace {

constexpr std::size_t crlf = 2;
constexpr std::size_t longest_number = 20;  // the digits and sign of any 64-bit number

// Room for n more bytes at the end. The string grows geometrically, so a batch of commands costs
// few allocations.
char* extend(std::string& out, std::size_t n) {
  const std::size_t old = out.size();
  out.resize(old + n);
  return out.data() + old;
}

char* put_crlf(char* to) noexcept {
  to[0] = '\r';
  to[1] = '\n';
  return to + crlf;
}

std::size_t digits(std::size_t n) noexcept {
  std::size_t count = 1;
  for (; n >= 10; n /= 10) ++count;
  return count;
}

// "$12\r\n": the prefix of a bulk string, or of an array.
char* put_prefix(char* to, char type, std::size_t n, std::size_t n_digits) noexcept {
  *to++ = type;
  if (n_digits == 2) {  // the usual one, without a call
    to[0] = static_cast<char>('0' + n / 10);
    to[1] = static_cast<char>('0' + n % 10);
    return put_crlf(to + 2);
  }
  return put_crlf(std::to_chars(to, to + n_digits, n).ptr);
}

}  // namespace

command_writer& command_writer::begin(std::size_t arguments) {
  const std::size_t n_digits = digits(arguments);
  put_prefix(extend(*out_, 1 + n_digits + crlf), '*', arguments, n_digits);
  return *this;
}

command_writer& command_writer::arg(std::string_view text) {
  const std::size_t n = text.size();
  const std::size_t n_digits = digits(n);
  char* const to = put_prefix(extend(*out_, 1 + n_digits + crlf + n + crlf), '$', n, n_digits);
  if (n != 0) std::memcpy(to, text.data(), n);
  put_crlf(to + n);
  return *this;
}

command_writer& command_writer::arg(std::int64_t number) {
  // The length comes before the digits, so they go to the stack first.
  char text[longest_number];
  const char* const end = std::to_chars(text, text + longest_number, number).ptr;
  return arg(std::string_view(text, static_cast<std::size_t>(end - text)));
}

}  // namespace weir::redis
