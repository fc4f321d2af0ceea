#include "redis/script/call_writer.hpp"

#include <algorithm>

#include "redis/script/call_parts.hpp"
#include "redis/script/joint_call.hpp"
#include "redis/script/settlement_call.hpp"

namespace weir::redis {
namespace {

/// True if two checks of the call may have a key in common. Only those of several limiters can: the
/// keys of one limiter differ by subject.
bool may_share(const script_call& c) {
  return c.keys.size() > 1 && !c.keys.front().checks.front().further().empty();
}

/// Makes EVAL with the text of the EVALSHA that begins there.
void put_text(std::string& out, std::size_t begin, const script& s) {
  std::string by_name, by_text;
  command_writer(by_name).arg("EVALSHA").arg(s.sha);
  command_writer(by_text).arg("EVAL").arg(s.text);
  out.replace(out.find(by_name, begin), by_name.size(), by_text);
}

}  // namespace

void call_writer::write(std::string& out, const script_call& c) {
  const std::size_t begin = out.size();
  write_by_name(out, c);
  if (c.has_text) put_text(out, begin, scripts()[c.script]);
}

void call_writer::write_by_name(std::string& out, const script_call& c) {
  if (c.kind == detail::check_kind::reset) return write_reset(out, c);
  switch (c.script) {
    case settlement:
      return write_settlement(out, c, scratch_);
    case reservation:
    case full_kernels:
      return write_joint_call(out, c, scratch_);
    default:
      return write_framed(out, c);
  }
}

void call_writer::write_framed(std::string& out, const script_call& c) {
  const std::size_t counts = counts_in(c);
  const frame& around = frame_of(c, counts);
  out += around.head;
  write_keys(out, c, scratch_);
  out += around.constants;
  if (counts == 0) return;
  command_writer writer(out);
  write_counts(writer, c, counts);
}

const call_writer::frame& call_writer::frame_of(const script_call& c, std::size_t counts) {
  const std::size_t keys = c.keys.size() * c.tiers.size();
  const bool may_share_keys = may_share(c);
  if (last_.keys == keys && last_.counts == counts && last_.script == c.script &&
      last_.max_wait == c.max_wait && last_.may_share_keys == may_share_keys &&
      std::ranges::equal(last_.tiers, c.tiers)) {
    return last_;
  }
  last_.tiers.clear();  // until it is whole
  last_.head.clear();
  last_.constants.clear();
  command_writer head(last_.head), tail(last_.constants);
  std::size_t constants = 0;
  const auto add = [&](const auto& argument) {
    tail.arg(argument);
    ++constants;
  };
  const bool reserves = c.kind == detail::check_kind::acquire;
  if (c.tiers.size() == 1 && !reserves) {
    const call_tier& only = c.tiers.front();
    std::visit([&](const auto& k) { record_arguments(k, only.cost).each(add); }, only.kernel);
  } else {
    scratch_.clear();
    pack_constants(scratch_, c.tiers, may_share_keys,
                   reserves ? std::optional(c.max_wait) : std::nullopt);
    add(std::string_view(scratch_));
  }
  head.begin(3 + keys + constants + counts);
  head.arg("EVALSHA").arg(scripts()[c.script].sha).arg(static_cast<std::int64_t>(keys));
  last_.keys = keys;
  last_.counts = counts;
  last_.script = c.script;
  last_.max_wait = c.max_wait;
  last_.may_share_keys = may_share_keys;
  last_.tiers.assign(c.tiers.begin(), c.tiers.end());
  return last_;
}

void call_writer::write_reset(std::string& out, const script_call& c) {
  command_writer writer(out);
  writer.begin(1 + c.keys.size() * c.tiers.size()).arg("UNLINK");
  write_keys(out, c, scratch_);
}

}  // namespace weir::redis
