#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "weir/feedback.hpp"

namespace weir::feedback {

/// The lines of one header: the headers with its name, in their order. They mean the same as one
/// line with their values joined by commas (RFC 9110, section 5.3). `headers` must outlive it.
class header_lines {
 public:
  /// Begins at the line headers[first].
  header_lines(std::span<const header_field> headers, std::size_t first) noexcept
      : headers_(headers), at_(first) {}

  std::string_view value() const noexcept { return headers_[at_].value; }

  /// Goes to the next line. False, and stays, if there is none.
  bool next() noexcept;

  /// True if no line of the same name stands before this one.
  bool at_first() const noexcept;

 private:
  bool is_line(std::size_t index) const noexcept;

  std::span<const header_field> headers_;
  std::size_t at_;
};

/// The elements of a header that is a list, without the blanks around them.
class list_elements {
 public:
  explicit list_elements(const header_lines& lines) noexcept
      : lines_(lines), rest_(lines.value()) {}

  std::optional<std::string_view> next() noexcept;

 private:
  header_lines lines_;
  std::optional<std::string_view> rest_;  // of the current line; empty behind its last element
};

/// Two elements of a list with ", " between them, as in a date. Empty if longer than any date.
class element_pair {
 public:
  element_pair(std::string_view first, std::string_view second) noexcept;
  std::string_view text() const noexcept { return {text_.data(), size_}; }

 private:
  std::array<char, 64> text_;
  std::size_t size_ = 0;
};

/// Calls read(element) for each element of a list. An element that it cannot read is tried again
/// together with the next one, because a date has a comma of its own; else it is skipped.
template <class Read>
void read_each(const header_lines& lines, Read read) noexcept {
  list_elements elements{lines};
  for (auto element = elements.next(); element;) {
    const bool is_read = element->empty() || read(*element);
    auto next = elements.next();
    if (!is_read && next && read(element_pair{*element, *next}.text())) next = elements.next();
    element = next;
  }
}

}  // namespace weir::feedback
