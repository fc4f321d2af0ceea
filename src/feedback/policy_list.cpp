#include "feedback/policy_list.hpp"

#include <algorithm>
#include <span>

#include "feedback/structured_field.hpp"
#include "feedback/tally.hpp"

namespace weir::feedback {

void policy_list::add_field(const header_lines& lines) noexcept {
  if (!well_formed(lines, field_type::list)) return;
  structured_reader reader{lines, field_type::list};
  for (keyed_item member; reader.next_member(member);) {
    stated_policy policy;
    if (member.item.is_count()) {
      policy.quota = member.item.number.whole;  // "100;w=60": drafts 04 to 07
    } else if (member.item.is_name()) {
      policy.name = member.item.name();  // "\"burst\";q=100;w=60": draft 08 and later
    } else {
      continue;
    }
    for (keyed_item parameter; reader.next_parameter(parameter);) {
      const bare_item& item = parameter.item;
      if (parameter.key == "q" && member.item.is_name()) {
        policy.quota.reset();
        if (item.is_count()) policy.quota = item.number.whole;
      } else if (parameter.key == "qu") {
        policy.of_requests = item.is_name() && item.name() == "requests";
      }
    }
    add(policy);
  }
}

void policy_list::add(const stated_policy& policy) noexcept {
  const std::span known{policies_.data(), count_};
  const auto same = std::ranges::find(known, policy.name, &stated_policy::name);
  if (same != known.end()) {
    keep_lowest(same->quota, policy.quota);
    same->of_requests = same->of_requests && policy.of_requests;
  } else if (count_ < most) {
    policies_[count_++] = policy;
  } else {
    too_many_ = true;
  }
}

const stated_policy* policy_list::find(std::string_view name) const noexcept {
  if (too_many_) return nullptr;
  const std::span known{policies_.data(), count_};
  const auto found = std::ranges::find(known, name, &stated_policy::name);
  return found == known.end() ? nullptr : &*found;
}

std::optional<std::int64_t> policy_list::lowest_quota() const noexcept {
  std::optional<std::int64_t> lowest;
  if (too_many_) return lowest;
  for (const stated_policy& policy : std::span{policies_.data(), count_}) {
    if (policy.of_requests) keep_lowest(lowest, policy.quota);
  }
  return lowest;
}

}  // namespace weir::feedback
