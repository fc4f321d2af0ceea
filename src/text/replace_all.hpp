#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::text {

/// Puts `by` in place of each `what`, which is not empty; not in what it has put there.
inline void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace weir::text
