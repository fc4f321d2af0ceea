#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace weir::memory {

/// The text under which a table keeps a key. A digest replaces a long key, so that a bound on the
/// number of keys bounds their bytes, too. The key's text must outlive this object.
class bounded_key {
 public:
  static constexpr std::size_t longest = 256;

  /// Throws std::bad_alloc if OpenSSL fails.
  explicit bounded_key(std::string_view key) : key_(key) {
    if (key.size() > longest) shorten();
  }
  bounded_key(const bounded_key&) = delete;
  bounded_key& operator=(const bounded_key&) = delete;

  operator std::string_view() const noexcept { return key_; }

 private:
  void shorten();

  std::string_view key_;
  std::array<char, longest + 1> text_;
};

/// The same in place.
inline void bound(std::string& key) {
  if (key.size() > bounded_key::longest) key.assign(bounded_key(key));
}

}  // namespace weir::memory
