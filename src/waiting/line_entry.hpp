#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "base/hash.hpp"
#include "check/give_back.hpp"
#include "waiting/waiter_line.hpp"

namespace weir::waiting {

/// The name of a check's line: its subject; of several limiters, a text that is made in `room`.
inline std::string_view name_of(const detail::check& c, std::string& room) {
  if (c.further().empty()) return c.subject.view();
  const auto append = [&room](const auto& one) {
    const detail::limiter_spec* const limiter = one.limiter.get();
    const std::string_view subject = one.subject.view();
    const std::size_t size = subject.size();
    room.append(reinterpret_cast<const char*>(&limiter), sizeof limiter);
    room.append(reinterpret_cast<const char*>(&one.units), sizeof one.units);
    room.append(reinterpret_cast<const char*>(&size), sizeof size);
    room.append(subject);
  };
  append(c);
  for (const detail::term& t : c.further()) append(t);
  return room;
}

inline std::uint64_t hash_of(const detail::check& c, const detail::key_hash& hash) {
  if (c.further().empty()) return hash(c.subject.view());  // the common case
  std::string room;
  return hash(name_of(c, room));
}

/// A line, and what its give-backs name.
struct line_entry : detail::agenda_entry {
  line_entry(const detail::check& c, const line_rules& rules, std::size_t at_store)
      : limiter(c.limiter),
        subject(c.subject),
        further(c.further().begin(), c.further().end()),
        line(rules, at_store) {
    std::string room;
    name = detail::short_text(name_of(c, room));
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
                                  one.told);
  }

  const std::shared_ptr<const detail::limiter_spec> limiter;
  const detail::short_text subject;
  const std::vector<detail::term> further;
  detail::short_text name;
  waiter_line line;
  std::unique_ptr<line_entry> next;  // in room_orders
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
