#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "policy/kernel.hpp"
#include "weir/error.hpp"

namespace weir::memcached {

/// All that memcached keeps of one subject, in one value: the states of all its tiers, its
/// cool-down, and the ids of the decisions that were settled. docs/formats.md has the format.
class subject_value {
 public:
  /// The first byte of every value. A change of the format or of a state's numbers needs the next
  /// number.
  static constexpr unsigned char version = 1;

  /// Reads a value; an empty one is a subject without a state. wrong_type: it is no value of weir;
  /// newer_state: it is one of a later version. Drops the ids of decisions that need not be
  /// remembered any more.
  error decode(std::string_view bytes, policies::instant now);

  /// What it keeps of a tier: the state, of the kernel's kind, and until when that matters; 0 if it
  /// is a fresh one. Set both after a change.
  struct tier_value {
    policies::any_state state = {};
    policies::instant ends = 0;
  };
  /// Null if the value holds something that is no such state. Stays valid until the next decode()
  /// or forget().
  tier_value* find(std::string_view tier, const policies::kernel& kernel);

  void forget(std::string_view tier);

  /// Whether the decision was settled, by its id.
  bool is_settled(std::uint64_t id, policies::instant now) const noexcept;
  /// How many settlements are remembered.
  std::size_t settled() const noexcept { return ids_.size(); }
  /// The most bytes that one of them takes.
  static constexpr std::size_t bytes_of_settled = 17;
  void set_settled(std::uint64_t id, policies::instant until);

  /// True if anything differs from what decode() read.
  bool is_changed();

  /// Writes the value into `out`, without what does not matter any more. Returns until when the
  /// rest matters; 0: nothing is left, and `out` is empty.
  policies::instant encode(policies::instant now, std::string& out);

 private:
  struct section : tier_value {
    std::string name;
    std::string stored;    // the state as it was read, or a fresh one's
    bool is_held = false;  // `state` has it
  };
  struct settled_id {
    std::uint64_t id;
    policies::instant until;
  };

  bool decode_sections(std::string_view bytes, policies::instant now);
  bool decode_ids(std::string_view bytes, policies::instant now);
  section* section_of(std::string_view name) noexcept;
  std::string_view bytes_of(const section& s);

  std::list<section> sections_;
  std::vector<settled_id> ids_;  // in order
  bool is_changed_ = false;      // beside the states
  // Kept from value to value, unless they are large.
  std::string scratch_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace weir::memcached
