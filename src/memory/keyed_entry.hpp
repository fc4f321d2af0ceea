#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir::memory {

/// A key and its hash. Keys of up to `inline_capacity` bytes need no allocation.
template <std::size_t inline_capacity>
class short_key {
 public:
  short_key() noexcept = default;
  short_key(std::string_view text, std::uint32_t hash)
      : size_(static_cast<std::uint32_t>(text.size())), hash_(hash) {
    if (size_ > inline_capacity) heap_ = new char[size_];
    if (size_ != 0) std::memcpy(data(), text.data(), size_);
  }
  short_key(short_key&& other) noexcept { *this = std::move(other); }
  short_key& operator=(short_key&& other) noexcept {
    if (this == &other) return *this;
    if (size_ > inline_capacity) delete[] heap_;
    size_ = std::exchange(other.size_, 0);
    hash_ = other.hash_;
    if (size_ > inline_capacity) {
      heap_ = other.heap_;
    } else {
      std::memcpy(inline_, other.inline_, sizeof inline_);
    }
    return *this;
  }
  ~short_key() {
    if (size_ > inline_capacity) delete[] heap_;
  }

  std::uint32_t hash() const noexcept { return hash_; }
  std::uint32_t size() const noexcept { return size_; }
  std::string_view view() const noexcept {
    return {size_ > inline_capacity ? heap_ : inline_, size_};
  }

 private:
  char* data() noexcept { return size_ > inline_capacity ? heap_ : inline_; }

  std::uint32_t size_ = 0;
  std::uint32_t hash_ = 0;
  union {
    char* heap_;
    char inline_[inline_capacity] = {};
  };
};

/// A key, which is not empty, and its state, for a slot_table. With a state of up to three words,
/// an entry is one cache line.
template <class State>
struct alignas(64) keyed_entry {
  using key_type = short_key<sizeof(State) <= 24 ? 56 - sizeof(State) : 48>;

  key_type key;  // empty: this slot is free, and its state is State{}
  State state{};

  std::uint32_t hash() const noexcept { return key.hash(); }
  bool is_free() const noexcept { return key.size() == 0; }
};

}  // namespace weir::memory
