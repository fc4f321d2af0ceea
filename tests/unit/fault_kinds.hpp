#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire.hpp"

/// What can go wrong on a connection of any protocol, and where.
namespace weir::test {

// clang-format off
enum class fault_kind : std::uint8_t {
  open_fails, open_hung_up, open_tls_failed,
  write_fails, write_stuck,
  read_fails, read_tls_failed, read_fails_halfway, garbage, garbage_halfway, wrong_reply,
  silence, time_passes,
  said, of_protocol,
  deadline, cancel_one, cancel_all, cancel_unsent, close, abandon,
  count
};
// clang-format on

inline constexpr std::size_t fault_kinds = static_cast<std::size_t>(fault_kind::count);

inline std::string_view name_of(fault_kind k) {
  // clang-format off
  constexpr std::string_view names[] = {
      "opening fails", "opening ends in TLS", "opening is refused in TLS",
      "a write fails", "a write gets stuck",
      "a read fails", "a read fails in TLS", "a read fails halfway",
      "garbage", "garbage halfway", "a wrong reply",
      "silence", "time passes",
      "the server says something else", "a fault of the protocol",
      "deadlines", "one caller cancels", "all callers cancel", "all callers cancel what is unsent",
      "the store is closed", "the context shuts down"};
  // clang-format on
  static_assert(std::size(names) == fault_kinds);
  return names[static_cast<std::size_t>(k)];
}

struct planned_fault {
  fault_kind what;
  std::size_t at;         // the step before which it strikes; of writes: which of them
  std::size_t which = 0;  // of writes: how many bytes get through; else: which one of its kind
};

inline bool is_of_write(fault_kind k) {
  return k == fault_kind::write_fails || k == fault_kind::write_stuck;
}

inline std::string text_of(manner m, const std::vector<planned_fault>& faults) {
  std::string text = m.eager ? "replies first" : "writes first";
  if (m.whole) text += ", whole";
  if (m.late) text += ", late";
  if (m.hasty) text += ", hasty";
  for (const planned_fault& f : faults) {
    text += "; ";
    text += name_of(f.what);
    text += " at " + std::to_string(f.at) + ", number " + std::to_string(f.which);
  }
  return text;
}

/// Holds whatever happens: it ends once, and its caller was told what the server has done.
inline void judge_fate(const asked_check& a) {
  BOOST_TEST_REQUIRE(a.check->finished == 1);
  BOOST_TEST_REQUIRE(a.executed <= 1);
  if (a.check->ec == condition::not_counted) BOOST_TEST_REQUIRE(a.executed == 0);
  if (a.check->ec) return;
  BOOST_TEST_REQUIRE(a.executed == 1);
  if (a.check->kind == detail::check_kind::reset) return;
  const decision& answer = a.check->answer;
  BOOST_TEST_REQUIRE(answer.allowed == a.right.allowed);
  BOOST_TEST_REQUIRE(answer.used == a.right.used);
  BOOST_TEST_REQUIRE(answer.limit == a.right.limit);
  BOOST_TEST_REQUIRE(static_cast<int>(answer.tier) == a.right.tier);
}

/// What a server may say in place of what was asked.
struct saying {
  std::string_view text;
  error means{};      // what a caller may be told for it
  bool ends = false;  // that connection will not serve
};

/// Which limiters a check asks.
enum class asks { one, tiers, several };

struct question {
  std::string_view subject;
  error told{};  // if nothing goes wrong but what the scenario wants
  asks of = asks::one;
  detail::check_kind kind = detail::check_kind::record;
  std::int64_t cost = 1;
};

/// Before there is a connection, while a write with checks is under way, or when there is nothing
/// else to do.
enum class when { at_first, during_write, in_quiet };

struct questions {
  when asked;
  std::vector<question> all;
};

}  // namespace weir::test
