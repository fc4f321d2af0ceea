#include "feedback/header_lines.hpp"

#include <algorithm>

#include "feedback/number_text.hpp"
#include "text/ascii.hpp"

namespace weir::feedback {

bool header_lines::is_line(std::size_t index) const noexcept {
  return std::ranges::equal(headers_[index].name, headers_[at_].name, {}, text::lower, text::lower);
}

bool header_lines::next() noexcept {
  for (std::size_t i = at_ + 1; i < headers_.size(); ++i) {
    if (!is_line(i)) continue;
    at_ = i;
    return true;
  }
  return false;
}

bool header_lines::at_first() const noexcept {
  for (std::size_t i = at_; i > 0; --i) {
    if (is_line(i - 1)) return false;
  }
  return true;
}

std::optional<std::string_view> list_elements::next() noexcept {
  if (!rest_) {
    if (!lines_.next()) return std::nullopt;
    rest_ = lines_.value();
  }
  const auto comma = rest_->find(',');
  const std::string_view element = trimmed(rest_->substr(0, comma));
  if (comma == std::string_view::npos) {
    rest_.reset();
  } else {
    rest_->remove_prefix(comma + 1);
  }
  return element;
}

element_pair::element_pair(std::string_view first, std::string_view second) noexcept {
  if (first.size() + 2 + second.size() > text_.size()) return;
  for (const std::string_view part : {first, std::string_view{", "}, second}) {
    std::ranges::copy(part, text_.data() + size_);
    size_ += part.size();
  }
}

}  // namespace weir::feedback
