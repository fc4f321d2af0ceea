#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "base/hash.hpp"
#include "check/give_back.hpp"
#include "waiting/waiter_line.hpp"

namespace weir::waiting {

/// A line, and what its give-backs name. It is that of a subject; or, with further limiters, of a
/// list of limiters, subjects and costs.
struct line_entry : detail::agenda_entry {
  line_entry(const detail::check& c, std::uint64_t its_hash, const line_rules& rules,
             answers_due due)
      : hash(its_hash),
        limiter(c.limiter),
        subject(c.subject),
        units(c.units),
        further(c.further().begin(), c.further().end()),
        line(rules, due) {}

  bool is_of(const detail::check& c) const noexcept {
    const auto same = [](const auto& a, const auto& b) {
      return a.limiter == b.limiter && a.units == b.units && a.subject.view() == b.subject.view();
    };
    if (c.further().empty()) return further.empty() && subject.view() == c.subject.view();
    return same(*this, c) && std::ranges::equal(further, c.further(), same);
  }

  template <class F>
  void for_each_limiter(F f) const {
    f(*limiter, subject.view());
    for (const detail::term& t : further) f(*t.limiter, t.subject.view());
  }

  detail::check& make_give_back(returned&& one) const {
    return detail::make_give_back({.limiter = limiter,
                                   .subject = subject,
                                   .units = one.cost,
                                   .about = one.held.answer,
                                   .further = further,
                                   .found = std::move(one.held.found)},
                                  one.caller);
  }

  const std::uint64_t hash;
  const std::shared_ptr<const detail::limiter_spec> limiter;
  const detail::short_text subject;
  const std::int64_t units;
  const std::vector<detail::term> further;
  waiter_line line;
  std::unique_ptr<line_entry> next;  // in room_orders
};

/// Hashes checks, and the entries of their lines. It needs no memory: a check may end without any.
struct line_hash {
  using is_transparent = void;

  std::uint64_t operator()(const line_entry* entry) const noexcept { return entry->hash; }
  std::uint64_t operator()(const detail::check& c) const noexcept {
    if (c.further().empty()) return of_subject(c.subject.view());  // the common case
    std::uint64_t sum = 0;
    const auto add = [&](const auto& one) {
      constexpr std::uint64_t odd = 0x9e3779b97f4a7c15u;
      const auto place = reinterpret_cast<std::uintptr_t>(one.limiter.get());
      for (const std::uint64_t part : {of_subject(one.subject.view()), std::uint64_t{place},
                                       static_cast<std::uint64_t>(one.units)}) {
        sum = (sum ^ part) * odd;
        sum ^= sum >> 32;
      }
    };
    add(c);
    for (const detail::term& t : c.further()) add(t);
    return sum;
  }

  detail::key_hash of_subject;
};

struct line_equal {
  using is_transparent = void;

  bool operator()(const line_entry* a, const line_entry* b) const noexcept { return a == b; }
  bool operator()(const detail::check& c, const line_entry* e) const noexcept {
    return e->is_of(c);
  }
  bool operator()(const line_entry* e, const detail::check& c) const noexcept {
    return e->is_of(c);
  }
};

/// The orders of one event, and what is released when all of them are carried out.
struct room_orders : orders {
  ~room_orders() {
    while (idle != nullptr) idle = std::move(idle->next);
  }
  void add(std::unique_ptr<line_entry> entry) noexcept {
    entry->next = std::move(idle);
    idle = std::move(entry);
  }

  std::unique_ptr<line_entry> idle;
  std::shared_ptr<void> keep_alive;
};

}  // namespace weir::waiting
