#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

/// What can go wrong in a session, and where.
namespace weir::redis::test {

// clang-format off
enum class kind : std::uint8_t {
  open_fails, open_hung_up, open_tls_failed,
  write_fails, write_stuck,
  read_fails, read_tls_failed, read_fails_halfway, garbage, garbage_halfway, wrong_reply,
  silence,
  deadline, cancel_one, cancel_all, cancel_unsent, close, abandon,
  count
};
// clang-format on

inline constexpr std::size_t fault_kinds = static_cast<std::size_t>(kind::count);

inline std::string_view name_of(kind k) {
  constexpr std::string_view names[] = {"opening fails",
                                        "opening ends in TLS",
                                        "opening is refused in TLS",
                                        "a write fails",
                                        "a write gets stuck",
                                        "a read fails",
                                        "a read fails in TLS",
                                        "a read fails halfway",
                                        "garbage",
                                        "garbage halfway",
                                        "a wrong reply",
                                        "silence",
                                        "deadlines",
                                        "one caller cancels",
                                        "all callers cancel",
                                        "all callers cancel what is unsent",
                                        "the store is closed",
                                        "the context shuts down"};
  static_assert(std::size(names) == fault_kinds);
  return names[static_cast<std::size_t>(k)];
}

struct fault {
  kind what;
  std::size_t at;         // the step before which it strikes; of writes: which of them
  std::size_t bytes = 0;  // of writes: how many get through
};

inline bool is_of_write(kind k) { return k == kind::write_fails || k == kind::write_stuck; }

/// What may differ while all goes well.
struct manner {
  bool eager = false;  // replies come before their write is reported done
  bool whole = false;  // all replies come in one read, not in one each
  bool late = false;   // what is under way at a close still succeeds
  bool hasty = false;  // deadlines are near
};

enum class step : std::uint8_t { open, write, read, come_back, wait };

/// What the next step is, and what could go wrong with it.
struct situation {
  step next;
  bool reading, connected, greeting, reply, reply_to_script, alive, asked;
};

inline std::vector<kind> possible(const situation& s) {
  std::vector<kind> all;
  const auto add = [&](bool possible, std::initializer_list<kind> some) {
    if (possible) all.insert(all.end(), some);
  };
  add(s.next == step::open, {kind::open_fails, kind::open_hung_up, kind::open_tls_failed});
  add(s.connected && s.reading, {kind::read_fails, kind::garbage});
  add(s.connected && s.reading && s.greeting, {kind::read_tls_failed});
  add(s.connected && s.reading && s.reply, {kind::read_fails_halfway, kind::garbage_halfway});
  add(s.connected && s.reading && s.reply_to_script && !s.greeting, {kind::wrong_reply});
  add(s.alive, {kind::silence});
  add(s.asked, {kind::cancel_one, kind::cancel_all, kind::cancel_unsent});
  add(true, {kind::close, kind::abandon});
  return all;
}

inline std::string text_of(manner m, const std::vector<fault>& faults) {
  std::string text = m.eager ? "replies first" : "writes first";
  if (m.whole) text += ", whole";
  if (m.late) text += ", late";
  if (m.hasty) text += ", hasty";
  for (const fault& f : faults) {
    text += "; ";
    text += name_of(f.what);
    text += " at " + std::to_string(f.at) + ", bytes " + std::to_string(f.bytes);
  }
  return text;
}

}  // namespace weir::redis::test
