#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::fuzz {

/// Takes a fuzzer's bytes apart. What is missing reads as zero.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }

  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }

  std::string_view bytes(std::size_t n) {
    n = std::min(n, size_);
    const std::string_view taken(reinterpret_cast<const char*>(data_), n);
    data_ += n;
    size_ -= n;
    return taken;
  }

  std::string_view rest() { return bytes(size_); }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

/// Ends the process, so that the fuzzer keeps the input.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace weir::fuzz
