#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "redis/resp/resp_reader.hpp"
#include "redis/script/script_call.hpp"

/// What scripts reply.
namespace weir::redis {

/// Reads the reply to a request: writes the answers, or a key's own error, to the checks that are
/// still pending; unlinks none. Returns the server's error for the whole call, or zero.
error read_reply(script_call& c, const reply_view& reply, std::vector<std::int64_t>& scratch);

/// In place of a reservation's time: all equal checks were counted now.
inline constexpr std::int64_t at_once = -1;

/// Reads the text that the script for these tiers replies (policy/lua/check.lua), for checks with
/// the counts of `keys`. `numbers` then holds the clock's time and for each key the fields of all
/// tiers. Of reservations, it holds for each key either at_once and the fields, or, for each equal
/// check, its turn and the fields before it. Returns how many keys full kernels have answered;
/// nothing if the text is not well-formed.
std::optional<std::size_t> read_found(std::span<const call_tier> tiers,
                                      std::span<const call_key> keys, bool reserves,
                                      std::string_view text, std::vector<std::int64_t>& numbers);

/// The states of several kernels that a script found.
class found_states {
 public:
  using tier = policies::tier<policies::any_replay>;

  found_states(std::span<const call_tier> tiers, std::span<const std::int64_t> fields);
  found_states(const found_states&) = delete;
  found_states& operator=(const found_states&) = delete;

  /// Zero if all keys held valid states; else wrong_type or newer_state.
  error failure() const noexcept { return failure_; }
  std::span<const tier> tiers() const noexcept { return tiers_; }

 private:
  error failure_{};
  boost::container::static_vector<policies::any_replay, policies::max_tiers> states_;
  boost::container::static_vector<tier, policies::max_tiers> tiers_;
};

}  // namespace weir::redis
