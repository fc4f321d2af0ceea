#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::memory {

/// A subject's state, and until when it matters. What most subjects hold takes two words: a TAT, a
/// window's start and counts, a cool-down. Logs, gates, and states with reservations ahead or with
/// something given back, lie on the heap.
///
/// To change a state: open() it, and put() it back.
class subject_state {
  // First, because clang has to know form_of() where open() and put() use it.
  enum form : std::uint8_t { none, bucket, fixed_window, sliding_window, cool_down, any };
  union words {
    std::int64_t each[2] = {};
    policies::any_state* any;
  };

  /// The form of two words for that kind of state; `any`: it has none.
  template <class State>
  static constexpr form form_of() noexcept {
    if constexpr (std::is_same_v<State, policies::meter::state>) return bucket;
    if constexpr (std::is_same_v<State, policies::fixed_window::state>) return fixed_window;
    if constexpr (std::is_same_v<State, policies::sliding_window::state>) {
      return sliding_window;
    }
    if constexpr (std::is_same_v<State, policies::cool_down::state>) return cool_down;
    return any;
  }

  static bool pack(const policies::meter::state& s, words& out) noexcept {
    out = {{s.whole, s.part}};
    return s == policies::meter::state{.whole = s.whole, .part = s.part};
  }
  static void unpack(const words& of, policies::meter::state& out) noexcept {
    out.whole = of.each[0];
    out.part = of.each[1];
  }
  static bool pack(const policies::fixed_window::state& s, words& out) noexcept {
    out = {{s.start, s.count}};
    return s == policies::fixed_window::state{.start = s.start, .count = s.count};
  }
  static void unpack(const words& of, policies::fixed_window::state& out) noexcept {
    out.start = of.each[0];
    out.count = of.each[1];
  }
  static bool pack(const policies::sliding_window::state& s, words& out) noexcept {
    // Both counts share a word if neither needs more than half of it.
    const auto current = static_cast<std::uint64_t>(s.current);
    out = {{s.start, static_cast<std::int64_t>(current << 32) | s.previous}};
    policies::sliding_window::state back;
    unpack(out, back);
    return s == back;
  }
  static void unpack(const words& of, policies::sliding_window::state& out) noexcept {
    out.start = of.each[0];
    out.current = static_cast<std::int64_t>(static_cast<std::uint64_t>(of.each[1]) >> 32);
    out.previous = of.each[1] & 0xffff'ffff;
  }
  static bool pack(const policies::cool_down::state& s, words& out) noexcept {
    out = {{s.until, s.marked_length}};
    return true;
  }
  static void unpack(const words& of, policies::cool_down::state& out) noexcept {
    out = {of.each[0], of.each[1]};
  }

 public:
  subject_state() noexcept = default;
  subject_state(subject_state&& other) noexcept { *this = std::move(other); }
  subject_state& operator=(subject_state&& other) noexcept {
    if (this == &other) return *this;
    drop();
    until_ = other.until_;
    form_ = other.form_;
    words_ = other.words_;
    other.form_ = none;
    return *this;
  }
  ~subject_state() { drop(); }

  policies::instant matters_until() const noexcept { return until_; }
  void set_matters_until(policies::instant until) noexcept { until_ = until; }

  /// The state itself, or a copy of it in `room`, which is fresh: an empty one if there is none of
  /// that kind.
  template <class State>
  State& open(State& room) noexcept {
    if (form_ == any) {
      if (auto* const held = std::get_if<State>(words_.any)) return *held;
    } else if constexpr (form_of<State>() != any) {
      if (form_ == form_of<State>()) unpack(words_, room);
    }
    return room;
  }
  /// The same for tiers. `kernel` says which kind.
  policies::any_state& open(policies::any_state& room, const policies::kernel& kernel) {
    return std::visit(
        [&](const auto& k) -> policies::any_state& {
          auto& own = policies::state_for(k, room);
          const auto& found = open(own);
          return &found == &own ? room : *words_.any;
        },
        kernel);
  }

  /// `used`: what open() has returned.
  template <class State>
  void put(State& used) {
    if constexpr (form_of<State>() != any) {
      words packed;
      if (pack(used, packed)) {
        drop();
        form_ = form_of<State>();
        words_ = packed;
        return;
      }
    }
    if (form_ != any) {
      words_.any = new policies::any_state(std::move(used));
      form_ = any;
    } else if (&used != std::get_if<State>(words_.any)) {
      *words_.any = std::move(used);
    }
  }
  void put(policies::any_state& used) {
    std::visit([&](auto& state) { put(state); }, used);
  }

 private:
  void drop() noexcept {
    if (form_ == any) delete words_.any;
    form_ = none;
  }

  policies::instant until_ : 56 = 0;
  std::uint64_t form_ : 8 = none;  // g++ 12 compares no bit-field of an enum class
  words words_;
};
static_assert(sizeof(subject_state) == 24);

}  // namespace weir::memory
