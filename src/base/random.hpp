#pragma once

#include <cstdint>

namespace weir::detail {

/// The thread's own random numbers, for one function: 64 bits each, different in every thread and
/// every process, also after fork().
class random_numbers {
 public:
  random_numbers();

  /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
  std::uint64_t next() noexcept { return mixed(state_ += 0x9e3779b97f4a7c15u); }

  static std::uint64_t mixed(std::uint64_t z) noexcept {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t& state_;
};

inline std::uint64_t random_number() { return random_numbers().next(); }

/// 0 in the process that loaded the library, a random number in each child of fork(). Adding it to
/// a counter that both processes inherited makes their values differ.
std::uint64_t fork_salt() noexcept;

}  // namespace weir::detail
