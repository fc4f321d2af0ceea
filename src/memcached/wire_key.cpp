#include "memcached/wire_key.hpp"

#include <algorithm>

#include "memcached/digest.hpp"
#include "text/ascii.hpp"

namespace weir::memcached {
namespace {

constexpr std::string_view mark = "sha256:";
constexpr std::size_t digits_of_hash = 64;

bool is_fit(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::string wire_key(std::string_view key) {
  if (key.size() <= max_key_size && is_fit(key)) return std::string(key);
  // A prefix has no brace: braces are escaped.
  const std::string_view prefix = key.substr(0, key.find(":{"));
  std::string out;
  if (prefix.size() + 1 + mark.size() + digits_of_hash <= max_key_size && is_fit(prefix)) {
    out += prefix;
    out += ':';
  }
  out += mark;
  text::append_hex(out, sha256(key));
  return out;
}

}  // namespace weir::memcached
