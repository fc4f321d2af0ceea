#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace weir::redis {

/// Appends arguments that have the same head and tail, such as the keys of one limiter. The text
/// around the middle is made once for each size, and copied in blocks.
///
/// The buffer is longer than its text until end(), which may be called more than once.
class similar_arguments {
 public:
  static bool fits(std::string_view head, std::string_view tail) noexcept {
    return head.size() <= longest_head && tail.size() <= longest_tail;
  }

  /// fits() is true. `head` must outlive this object. `further`: how many arguments are expected
  /// behind the first; a wrong number costs time, and nothing else.
  similar_arguments(std::string& out, std::string_view head, std::string_view tail,
                    std::size_t further) noexcept
      : out_(out), head_(head), tail_size_(tail.size() + 2), used_(out.size()), left_(further) {
    std::copy(tail.begin(), tail.end(), tail_);
    std::memcpy(tail_ + tail.size(), "\r\n", 2);
  }

  void put(std::string_view middle) {
    const std::size_t n = middle.size();
    if (n != middle_size_) begin_with(n);
    const std::size_t front = front_size_, all = front + n + tail_size_;
    // In pieces, because the string zeroes its new bytes.
    if (out_.size() - used_ < all + 2 * block) {
      out_.resize(used_ + all + 2 * block + std::min(piece, left_ * all));
    }
    if (left_ > 0) --left_;
    char* const to = out_.data() + used_;
    used_ += all;
    for (std::size_t i = 0; i < front; i += block) std::memcpy(to + i, front_ + i, block);
    copy(to + front, middle);
    std::memcpy(to + front + n, tail_, block);
  }

  void end() { out_.resize(used_); }

 private:
  static constexpr std::size_t block = 16, piece = 1024;
  static constexpr std::size_t longest_head = 96, longest_tail = block - 2;

  void begin_with(std::size_t middle_size) noexcept {
    middle_size_ = middle_size;
    const std::size_t size = head_.size() + middle_size + tail_size_ - 2;
    char* to = front_;
    *to++ = '$';
    to = std::to_chars(to, to + 20, size).ptr;
    *to++ = '\r';
    *to++ = '\n';
    to = std::copy(head_.begin(), head_.end(), to);
    front_size_ = static_cast<std::size_t>(to - front_);
  }

  /// Without a call for a few bytes.
  static void copy(char* to, std::string_view from) noexcept {
    const std::size_t n = from.size();
    if (n > 64) {
      std::memcpy(to, from.data(), n);
    } else if (n >= 8) {
      for (std::size_t i = 0; i + 8 < n; i += 8) std::memcpy(to + i, from.data() + i, 8);
      std::memcpy(to + n - 8, from.data() + n - 8, 8);
    } else {
      for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
    }
  }

  std::string& out_;
  const std::string_view head_;
  const std::size_t tail_size_;                             // with CR LF
  std::size_t used_;                                        // bytes of out_
  std::size_t left_;                                        // arguments that are expected still
  std::size_t middle_size_ = static_cast<std::size_t>(-1);  // that front_ is for
  std::size_t front_size_ = 0;
  char front_[(longest_head + 32 + block - 1) / block * block] = {};  // "$34\r\n" and the head
  char tail_[block] = {};
};

}  // namespace weir::redis
