#pragma once

#include <span>
#include <string>

#include "redis/resp/resp_writer.hpp"
#include "redis/script/script_call.hpp"

/// What all script calls share.
namespace weir::redis {

/// Writes the keys of the call's checks, tier by tier.
void write_keys(std::string& out, const script_call& c, std::string& scratch);

/// How many numbers a script replies for one key, or for the keys of one check.
std::size_t reply_width(const call_tier& t) noexcept;
std::size_t reply_width(std::span<const call_tier> tiers) noexcept;

/// The number of counts in the call: trailing counts of 1 are left out.
std::size_t counts_in(const script_call& c);
void write_counts(command_writer& writer, const script_call& c, std::size_t counts);

/// Why a state cannot be read, by the first number that the script replied in its place.
constexpr error unreadable(std::int64_t first) noexcept {
  return first == policies::newer ? error::newer_state : error::wrong_type;
}

/// Ends the key's checks: its state cannot be read.
inline void answer_unreadable(call_key& key, error why) {
  for (detail::check& waiting : key.checks) waiting.ec = why;
}

/// Calls `next` for each place, with the empty answer of its check, or with an unused answer if
/// that check is not pending any more.
template <class F>
void each_place(call_key& key, F&& next) {
  std::uint32_t place = 0;
  for (detail::check& waiting : key.checks) {
    for (; place < flight_of(waiting).position; ++place) {
      decision unused;
      next(unused);
    }
    next(waiting.answer);
    ++place;
  }
}

}  // namespace weir::redis
