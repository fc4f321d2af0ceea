#pragma once

#include <boost/container/static_vector.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/script/record_reply.hpp"
#include "redis/script/script_call.hpp"

/// Calls to the scripts for several tiers: checks that touch several keys and pass all or nothing,
/// and reservations.
namespace weir::redis {

/// The states of several kernels that a script found.
class found_states {
 public:
  using tier = policies::tier<policies::any_replay>;

  found_states(const script_call& c, std::span<const std::int64_t> fields);
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

/// The number of this kernel in a script of several kernels.
std::int64_t number_of(const policies::kernel& kernel);

/// The tiers of a script with a common path, for checks or reservations; empty if only the full
/// kernels can answer them.
using script_tiers = boost::container::static_vector<script_tier, policies::max_tiers>;
script_tiers script_tiers_of(std::span<const call_tier> tiers, script_task task) noexcept;

/// The index in scripts() of a request's script (not of a reset): the kernel's own; for several
/// tiers and reservations, one with a common path or with full kernels.
std::size_t script_of(const script_call& c) noexcept;

/// Appends the argument of a script with a common path that stands before the counts. A script that
/// reserves takes max_wait.
void pack_constants(std::string& to, std::span<const call_tier> tiers, bool may_share_keys,
                    std::optional<std::int64_t> max_wait = {});

/// Reads the reply of a script for several tiers. `numbers` then holds the clock's time and the
/// fields of all tiers of each check, for which it has room. False if the reply is not well-formed.
bool read_found_tiers(std::span<const call_tier> tiers, const reply_view& reply,
                      std::span<std::int64_t> numbers);

/// The arguments of full kernels before the counts.
std::vector<std::int64_t> full_constants(const script_call& c);

/// In place of a reservation's time: all equal checks were counted now.
inline constexpr std::int64_t at_once = -1;

/// Reads the reply of a script that reserves, for checks with the counts of `keys`. `numbers` then
/// holds the clock's time and for each key either at_once and the fields of all tiers, or, for each
/// equal check, its turn and the fields before it. False if the reply is not well-formed.
bool read_found_turns(std::span<const call_tier> tiers, std::span<const call_key> keys,
                      const reply_view& reply, std::vector<std::int64_t>& numbers);

/// Writes a call of full kernels: to full_kernels, or to `reservation`.
void write_joint_call(std::string& out, const script_call& c, std::string& scratch);

/// Reads the reply of a script for several tiers. False if it is not well-formed.
bool read_joint_states(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers);

/// Reads the reply of a script that reserves. False if it is not well-formed.
bool read_reservations(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers);

}  // namespace weir::redis
