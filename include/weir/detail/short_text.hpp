#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir::detail {

/// An owned copy of a subject. Every check carries one, and subjects are short: up to 47 bytes stay
/// inside the object, so that a check needs no further allocation.
class short_text {
 public:
  static constexpr std::size_t inline_capacity = 47;

  short_text() noexcept = default;
  explicit short_text(std::string_view text) : size_(static_cast<std::uint32_t>(text.size())) {
    if (size_ >= 8 && size_ <= 16) {  // the usual size: two copies that may overlap, without a call
      std::memcpy(inline_, text.data(), 8);
      std::memcpy(inline_ + size_ - 8, text.data() + size_ - 8, 8);
      return;
    }
    if (size_ > inline_capacity) heap_ = new char[size_];
    if (size_ != 0) std::memcpy(data(), text.data(), size_);
  }
  short_text(short_text&& other) noexcept : size_(other.size_) {
    if (size_ > inline_capacity) {
      heap_ = other.heap_;
    } else {
      std::memcpy(inline_, other.inline_, inline_capacity);
    }
    other.size_ = 0;
  }
  short_text(const short_text& other) : short_text(other.view()) {}
  short_text& operator=(short_text other) noexcept {
    this->~short_text();
    return *new (this) short_text(std::move(other));
  }
  ~short_text() {
    if (size_ > inline_capacity) delete[] heap_;
  }

  std::string_view view() const noexcept {
    return {size_ > inline_capacity ? heap_ : inline_, size_};
  }

 private:
  char* data() noexcept { return size_ > inline_capacity ? heap_ : inline_; }

  std::uint32_t size_ = 0;
  union {
    char* heap_;
    char inline_[inline_capacity];
  };
};

}  // namespace weir::detail
