#pragma once

#include <cstdint>
#include <string_view>

#include "feedback/number_text.hpp"

namespace weir::feedback {

/// A value of a structured field (RFC 9651).
struct bare_item {
  enum class kind : std::uint8_t {
    number,  ///< not negative
    text,    ///< a string, without its quotes and with its escapes; or a token
    other,   ///< a negative number, bytes, a boolean or a date, which no limit uses
  };
  kind is = kind::other;
  decimal number{};
  std::string_view text{};
};

/// A key and its value. In a list, the key of a member is empty.
struct keyed_item {
  std::string_view key{};
  bare_item item{};
};

/// Reads a list or a dictionary: "\"a\";r=50;t=30, \"b\";r=3", "limit=100, remaining=50". Read the
/// parameters of each member after it. Inner lists count as malformed; numbers may have any length.
/// Allocates nothing.
class structured_reader {
 public:
  explicit structured_reader(std::string_view text) noexcept : rest_(trimmed(text)) {}

  /// False at the end, and from the first mistake on. Skips unread parameters of the last member.
  bool next_member(keyed_item& member) noexcept;

  /// False after the last parameter of a member.
  bool next_parameter(keyed_item& parameter) noexcept;

  bool failed() const noexcept { return failed_; }

 private:
  bool fail() noexcept;
  bool take(char c) noexcept;
  bool take_key(std::string_view& key) noexcept;
  bool take_item(bare_item& item) noexcept;
  bool take_string(bare_item& item) noexcept;
  bool take_bytes() noexcept;
  template <class Predicate>
  std::string_view take_while(Predicate accepted) noexcept;

  std::string_view rest_;
  bool begun_ = false;
  bool failed_ = false;
};

/// True if the whole field can be read. A field with a mistake anywhere is ignored as a whole.
bool well_formed(std::string_view text) noexcept;

}  // namespace weir::feedback
