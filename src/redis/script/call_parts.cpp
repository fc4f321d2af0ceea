#include "redis/script/call_parts.hpp"

#include "redis/script/similar_arguments.hpp"

namespace weir::redis {
namespace {

/// Writes the keys of one tier in a call of one limiter.
void write_tier(std::string& out, const script_call& c, std::size_t tier, std::string& scratch) {
  const detail::limiter_spec& limiter = *c.keys.front().checks.front().limiter;
  if (!similar_arguments::fits(limiter.key_head(), limiter.key_tail(tier))) {
    command_writer writer(out);
    for (const call_key& key : c.keys) {
      scratch.clear();
      limiter.append_key(scratch, key.checks.front().subject.view(), tier);
      writer.arg(scratch);
    }
    return;
  }
  similar_arguments keys(out, limiter.key_head(), limiter.key_tail(tier), c.keys.size() - 1);
  const bool has_buckets = limiter.buckets > 0;
  for (const call_key& key : c.keys) {
    const std::string_view subject = key.checks.front().subject.view();
    if (!has_buckets && detail::limiter_spec::stands_in_keys(subject)) {
      keys.put(subject);
    } else {
      scratch.clear();
      limiter.append_subject(scratch, subject);
      keys.put(scratch);
    }
  }
  keys.end();
}

/// The same for checks of several limiters. `tier` counts the tiers of all limiters.
void write_joint_tier(std::string& out, const script_call& c, std::size_t tier,
                      std::string& scratch) {
  command_writer writer(out);
  for (const call_key& key : c.keys) {
    std::size_t number = 0;
    detail::for_each_tier(key.checks.front(),
                          [&](const detail::limiter_spec& limiter, std::string_view subject,
                              std::int64_t, std::size_t tier_of_limiter) {
                            if (number++ != tier) return;
                            scratch.clear();
                            limiter.append_key(scratch, subject, tier_of_limiter);
                            writer.arg(scratch);
                          });
  }
}

}  // namespace

void write_keys(std::string& out, const script_call& c, std::string& scratch) {
  // A call that starts a cool-down has only the cool-down tier.
  const bool is_joint = !c.keys.front().checks.front().further().empty() ||
                        c.kind == detail::check_kind::cool_down;
  const auto write = is_joint ? write_joint_tier : write_tier;
  for (std::size_t tier = 0; tier < c.tiers.size(); ++tier) write(out, c, tier, scratch);
}

std::size_t reply_width(const call_tier& t) noexcept {
  return std::visit([]<class Kernel>(const Kernel&) { return Kernel::reply_width; }, t.kernel);
}

std::size_t reply_width(std::span<const call_tier> tiers) noexcept {
  std::size_t width = 0;
  for (const call_tier& t : tiers) width += reply_width(t);
  return width;
}

std::size_t counts_in(const script_call& c) {
  std::size_t counts = c.keys.size();
  if (c.kind == detail::check_kind::fetch) return counts;
  while (counts > 0 && c.keys[counts - 1].count == 1) --counts;
  return counts;
}

void write_counts(command_writer& writer, const script_call& c, std::size_t counts) {
  const bool looks_only = c.kind == detail::check_kind::fetch;
  for (std::size_t i = 0; i < counts; ++i) {
    writer.arg(looks_only ? policies::look_only : std::int64_t{c.keys[i].count});
  }
}

}  // namespace weir::redis
