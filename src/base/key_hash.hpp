#pragma once

#include <cstdint>
#include <string_view>

#include "base/random.hpp"
#include "base/wyhash.hpp"

namespace weir::detail {

/// A hash of short texts. Its secrets differ from table to table, so a client that chooses its name
/// cannot choose one that collides.
class key_hash {
 public:
  std::uint64_t operator()(std::string_view key) const noexcept {
    // The length comes last: next to the text, it could undo a difference there.
    return folded(wyhash(key, first_, second_) ^ key.size(), second_);
  }

 private:
  std::uint64_t first_ = random_number();
  std::uint64_t second_ = random_number() | 1;
};

}  // namespace weir::detail
