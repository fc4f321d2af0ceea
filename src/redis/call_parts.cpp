#include "redis/call_parts.hpp"

#include "redis/similar_arguments.hpp"

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

}  // namespace

void write_keys(std::string& out, const script_call& c, std::string& scratch) {
  if (c.is_beside_cool_downs()) {
    for (std::size_t tier = 0; tier < c.tiers.size(); ++tier) write_tier(out, c, tier, scratch);
    return;
  }
  if (detail::is_single(c.keys.front().checks.front())) return write_tier(out, c, 0, scratch);
  command_writer writer(out);
  for (const call_key& key : c.keys) {
    detail::for_each_tier(key.checks.front(),
                          [&](const detail::limiter_spec& limiter, std::string_view subject,
                              std::int64_t, std::size_t tier) {
                            scratch.clear();
                            limiter.append_key(scratch, subject, tier);
                            writer.arg(scratch);
                          });
  }
}

std::size_t reply_width(const script_call& c) {
  std::size_t width = 0;
  for (const call_tier& t : c.tiers) {
    width += std::visit([](const auto& k) { return std::decay_t<decltype(k)>::reply_width; },
                        t.kernel);
  }
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
