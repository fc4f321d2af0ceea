#pragma once

#include <boost/container/static_vector.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "redis/record_reply.hpp"
#include "redis/script_call.hpp"

/// Calls to the scripts of several kernels: checks that touch several keys and pass all or nothing,
/// and reservations.
namespace weir::redis {

/// The states of several kernels that a script found.
class found_states {
 public:
  using tier = policies::tier<policies::any_replay>;

  found_states(const script_call& c, std::span<const std::int64_t> fields);
  found_states(const found_states&) = delete;
  found_states& operator=(const found_states&) = delete;

  /// Zero if all keys held states that the kernels can have made; else wrong_type or newer_state.
  error failure() const noexcept { return failure_; }
  std::span<const tier> tiers() const noexcept { return tiers_; }

 private:
  error failure_{};
  boost::container::static_vector<policies::any_replay, policies::max_tiers> states_;
  boost::container::static_vector<tier, policies::max_tiers> tiers_;
};

/// The number by which a script of several kernels knows this one.
std::int64_t number_of(const policies::kernel& kernel);

/// Whether the script of all_or_nothing has a common path for checks with these tiers; then it
/// takes their constants packed, in one argument.
bool takes_common_path(std::span<const call_tier> tiers);
void pack_constants(std::string& to, std::span<const call_tier> tiers);

/// The index in scripts() of the one that answers checks with these tiers.
std::size_t script_of(std::span<const call_tier> tiers) noexcept;

/// Calls f with each argument of that script before the counts; not for all_or_nothing.
template <class F>
void each_argument(std::span<const call_tier> tiers, std::string& scratch, F&& f) {
  const policies::script_arguments own = std::visit(
      [&](const auto& k) { return record_arguments(k, tiers[0].cost); }, tiers[0].kernel);
  if (tiers.size() == 1) return own.each(f);
  // With cool-downs, the last one has more numbers behind the kernel's.
  own.each([&]<class T>(const T& argument) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      scratch = argument;
      pack_constants(scratch, tiers);
      f(std::string_view(scratch));
    } else {
      f(argument);
    }
  });
}

/// Takes what the common path says of one check from the front of its text. False if it is none.
bool read_plain_tiers(std::span<const call_tier> tiers, std::string_view& text,
                      std::span<std::int64_t> fields);

/// The same for a check that a cool-down may refuse, of a reply that has a text for each check. The
/// text ends behind the kernel's state if there is no cool-down.
bool read_beside_cool_down(std::span<const call_tier> tiers, std::string_view& text,
                           std::span<std::int64_t> fields);

void write_joint_call(std::string& out, const script_call& c, std::string& scratch);

/// Reads the reply of all_or_nothing, or the array by which a script answers checks that a
/// cool-down may refuse. False if it is none.
bool read_joint_states(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers);

/// Reads reservations: the script replies with the time of each place. False if it is no such
/// reply.
bool read_reservations(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers);

}  // namespace weir::redis
