#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::detail {

/// A bucket in one word: its TAT.
class bucket_word {
 public:
  static std::optional<bucket_word> of(const policies::meter& k) noexcept {
    if (!k.has_whole_units()) return {};
    return bucket_word(k);
  }

  const policies::meter& rules() const noexcept { return rules_; }
  std::uint64_t pack(const policies::meter::state& s) const noexcept {
    return static_cast<std::uint64_t>(s.whole);
  }
  policies::meter::state unpack(std::uint64_t word) const noexcept {
    return {.whole = static_cast<policies::instant>(word)};
  }
  /// As rules().record(), without the decision's numbers.
  bool record(std::uint64_t& word, policies::instant now, policies::units cost) const noexcept {
    auto tat = static_cast<policies::instant>(word);
    const bool allowed = rules_.record_plain(tat, now, cost);
    word = static_cast<std::uint64_t>(tat);
    return allowed;
  }

 private:
  explicit bucket_word(const policies::meter& k) noexcept : rules_(k) {}

  policies::meter rules_;
};

/// A fixed window in one word: in the high bits, when it began (the number of an anchored window,
/// or a time in microseconds), and below, its count.
class window_word {
 public:
  static std::optional<window_word> of(const policies::fixed_window& k) noexcept {
    if (k.counts_refused()) return {};
    const window_word packed(k);
    if (static_cast<std::uint64_t>(k.limit()) >> packed.count_bits_ != 0) return {};
    return packed;
  }

  const policies::fixed_window& rules() const noexcept { return rules_; }
  std::uint64_t pack(const policies::fixed_window::state& s) const noexcept {
    if (s.count == 0) return 0;
    const auto begin = static_cast<std::uint64_t>((s.start - origin_) / step_);
    return begin << count_bits_ | static_cast<std::uint64_t>(s.count);
  }
  policies::fixed_window::state unpack(std::uint64_t word) const noexcept {
    const auto count = static_cast<policies::units>(word & ((std::uint64_t{1} << count_bits_) - 1));
    if (count == 0) return {};
    return {origin_ + static_cast<policies::instant>(word >> count_bits_) * step_, count};
  }
  bool record(std::uint64_t& word, policies::instant now, policies::units cost) const noexcept {
    const auto before = unpack(word);
    auto s = before;
    const bool allowed = rules_.record_plain(s.start, s.count, now, cost);
    // Most requests do not begin a window, and need no division.
    const bool is_open = before.count > 0 && s.start == before.start;
    word = is_open ? word + static_cast<std::uint64_t>(s.count - before.count) : pack(s);
    return allowed;
  }

 private:
  explicit window_word(const policies::fixed_window& k) noexcept
      : rules_(k),
        step_(k.offset() ? k.window() : 1),
        // The first window of all may have begun before 1970.
        origin_(k.offset() ? *k.offset() - k.window() : 0),
        count_bits_(static_cast<unsigned>(std::countl_zero(
            static_cast<std::uint64_t>((policies::max_exact - origin_) / step_)))) {}

  policies::fixed_window rules_;
  policies::span step_;
  policies::instant origin_;
  unsigned count_bits_;
};

/// One kernel whose state fits one word. `Form` is bucket_word or window_word.
template <class Form>
class word_rules {
 public:
  using state_type = std::uint64_t;

  explicit word_rules(const Form& form) noexcept : form_(form) {}

  bool allowed(state_type& word, policies::instant now, policies::units cost) const noexcept {
    return form_.record(word, now, cost);
  }
  decision record(state_type& word, policies::instant now, policies::units cost) const noexcept {
    auto state = form_.unpack(word);
    const decision d = form_.rules().record(state, now, cost);
    word = form_.pack(state);
    return d;
  }
  decision fetch(const state_type& word, policies::instant now,
                 policies::units cost) const noexcept {
    return form_.rules().fetch(form_.unpack(word), now, cost);
  }
  policies::instant matters_until(const state_type& word) const noexcept {
    return form_.rules().matters_until(form_.unpack(word));
  }
  bool is_far_ahead(const state_type& word, policies::instant now) const noexcept {
    return form_.rules().is_far_ahead(form_.unpack(word), now);
  }
  policies::units in_use(const state_type& word, policies::instant now) const noexcept {
    return form_.rules().in_use(form_.unpack(word), now);
  }

 private:
  Form form_;
};

/// One kernel whose state fits one atomic word: no lock.
///
/// A call loads the word before it reads the clock. In the other order, a thread that was suspended
/// in between would find a state newer than its time, take that for a clock that was set back, and
/// move the state back.
class one_word {
 private:
  /// f(rules, word, now) changes the word and returns the result. If another thread was faster, f
  /// is called again, with a new time. The word guards no other memory, so relaxed order is enough.
  template <class Clock, class F>
  auto change(const Clock& clock, F&& f) {
    return std::visit(
        [&](const auto& rules) {
          std::uint64_t seen = word_.load(std::memory_order_relaxed);
          while (true) {
            std::uint64_t next = seen;
            auto result = f(rules, next, clock());
            if (next == seen ||
                word_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) {
              return result;
            }
          }
        },
        rules_);
  }

 public:
  /// Nothing if the kernel's state does not fit.
  static std::optional<one_word> of(const policies::kernel& k) noexcept {
    if (const auto* bucket = std::get_if<policies::meter>(&k)) {
      if (const auto form = bucket_word::of(*bucket)) return one_word(word_rules(*form));
    }
    if (const auto* window = std::get_if<policies::fixed_window>(&k)) {
      if (const auto form = window_word::of(*window)) return one_word(word_rules(*form));
    }
    return {};
  }

  template <class Clock>
  bool allowed(const Clock& clock, policies::units cost) {
    return change(clock, [&](const auto& rules, std::uint64_t& word, policies::instant now) {
      return rules.allowed(word, now, cost);
    });
  }
  template <class Clock>
  decision record(const Clock& clock, policies::units cost) {
    return change(clock, [&](const auto& rules, std::uint64_t& word, policies::instant now) {
      return rules.record(word, now, cost);
    });
  }
  template <class Clock>
  decision fetch(const Clock& clock, policies::units cost) const {
    return std::visit(
        [&](const auto& rules) {
          const std::uint64_t word = word_.load(std::memory_order_relaxed);
          return rules.fetch(word, clock(), cost);
        },
        rules_);
  }
  void reset() noexcept { word_.store(0, std::memory_order_relaxed); }

  // Only before the object is shared.
  one_word(one_word&& other) noexcept : rules_(other.rules_), word_(other.word_.load()) {}

 private:
  using any_rules = std::variant<word_rules<bucket_word>, word_rules<window_word>>;
  explicit one_word(const any_rules& rules) noexcept : rules_(rules) {}

  any_rules rules_;
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace weir::detail
