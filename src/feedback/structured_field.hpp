#pragma once

#include <cstdint>
#include <string_view>

#include "feedback/header_lines.hpp"
#include "feedback/number_text.hpp"

namespace weir::feedback {

/// A value of a structured field (RFC 9651).
struct bare_item {
  enum class kind : std::uint8_t {
    integer,
    decimal,
    string,
    token,
    bytes,
    boolean,
    date,
    display_string,
    inner_list,  ///< of a member; and of a parameter, which the RFC does not allow
  };
  kind is = kind::boolean;
  bool truth = true;      ///< of a boolean
  bool negative = false;  ///< of an integer, decimal or date: below zero
  /// True if a string goes on in the next line, behind the comma that joins the two. `text` is then
  /// its part in the first line.
  bool goes_on = false;
  /// An integer, a decimal or the seconds of a date, without the sign.
  weir::feedback::decimal number{};
  /// A token, as it stands; a string without its quotes and with its escapes; bytes in base64.
  std::string_view text{};

  /// A number of requests or seconds: an integer or decimal that is not negative.
  bool is_count() const noexcept;
  /// A string or token. Policies are known by it.
  bool is_name() const noexcept;
  /// The text up to its first comma, which may be where one of the header's lines ends.
  std::string_view name() const noexcept;
};

/// A key and its value. In a list, and in an item, the key of a member is empty.
struct keyed_item {
  std::string_view key{};
  bare_item item{};
};

/// The grammar of a field. RFC 9651 has three types, and bounds the digits of numbers.
enum class field_type : std::uint8_t {
  item,
  list,
  dictionary,
  list_of_any_numbers,  ///< a list; numbers may have any length, and a tab may stand before it
};

/// Reads a structured field: "\"a\";r=50;t=30, \"b\";r=3", "limit=100, remaining=50". Of several
/// equal keys, it returns each; the last one counts. Allocates nothing. Skips what the caller does
/// not read.
class structured_reader {
 public:
  structured_reader(const header_lines& lines, field_type type) noexcept
      : lines_(lines), rest_(lines.value()), type_(type) {}

  /// False at the end, and from the first mistake on. An item has one member.
  bool next_member(keyed_item& member) noexcept;

  /// The next item of the last member, an inner list. Before and after these items,
  /// next_parameter() reads the parameters of the last item, and then those of the list.
  bool next_item(bare_item& item) noexcept;

  /// False after the last parameter of a member, or of an item of an inner list.
  bool next_parameter(keyed_item& parameter) noexcept;

  bool failed() const noexcept { return failed_; }

 private:
  bool fail() noexcept;
  bool take(char c) noexcept;
  bool take_comma() noexcept;
  bool take_key(std::string_view& key) noexcept;
  bool take_value(bare_item& item) noexcept;
  bool take_item(bare_item& item) noexcept;
  bool take_number(bare_item& item) noexcept;
  bool take_string(bare_item& item) noexcept;
  bool take_escape(unsigned char& byte) noexcept;
  bool take_bytes(bare_item& item) noexcept;
  template <class Predicate>
  std::string_view take_while(Predicate accepted) noexcept;

  header_lines lines_;
  std::string_view rest_;  // of the current line
  field_type type_;
  bool begun_ = false;
  bool in_list_ = false;     // between the parentheses of an inner list
  bool after_item_ = false;  // parameters may follow
  bool failed_ = false;
};

/// True if the whole field can be read. A field with a mistake anywhere is ignored as a whole.
bool well_formed(const header_lines& lines, field_type type) noexcept;

}  // namespace weir::feedback
