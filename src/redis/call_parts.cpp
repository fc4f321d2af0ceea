#include "redis/call_parts.hpp"

namespace weir::redis {
namespace {

/// Writes the keys of a call of one limiter with one tier. False, with nothing written, if a
/// subject needs escapes.
bool write_single_keys(command_writer& writer, const script_call& c) {
  const detail::check& first = c.keys.front().checks.front();
  if (!detail::is_single(first)) return false;
  const std::string_view head = first.limiter->key_head(), tail = first.limiter->key_tail();
  std::size_t most = 0;
  for (const call_key& key : c.keys) {
    const std::string_view subject = key.checks.front().subject.view();
    if (!detail::limiter_spec::stands_in_keys(subject)) return false;
    most += command_writer::most_of(head.size() + subject.size() + tail.size());
  }
  char* to = writer.room(most);
  for (const call_key& key : c.keys) {
    to = command_writer::put(to, head, key.checks.front().subject.view(), tail);
  }
  writer.end(to);
  return true;
}

}  // namespace

void write_keys(command_writer& writer, const script_call& c, std::string& scratch) {
  if (write_single_keys(writer, c)) return;
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
