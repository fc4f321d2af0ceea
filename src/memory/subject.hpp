#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "check/key_hash.hpp"
#include "policy/kernel.hpp"

namespace weir::memory {

inline std::uint32_t hash_of(std::string_view key) noexcept {
  static const detail::key_hash hash;
  return static_cast<std::uint32_t>(hash(key));
}

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

/// With its state, a subject then takes 128 bytes for most policies.
using subject_key = short_key<40>;

/// A key and its state.
struct subject {
  subject_key key;
  policies::instant matters_until = 0;
  policies::any_state state;

  std::uint32_t hash() const noexcept { return key.hash(); }
  /// Keeps the state for a grace period, because the clock may step back.
  bool is_over(policies::instant now) const noexcept {
    return matters_until + policies::grace <= now;
  }
};

}  // namespace weir::memory
