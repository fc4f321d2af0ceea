#include "redis/call_writer.hpp"

#include "redis/call_parts.hpp"
#include "redis/joint_call.hpp"
#include "redis/settlement_call.hpp"

namespace weir::redis {

void call_writer::write(std::string& out, const script_call& c) {
  if (c.kind == detail::check_kind::reset) return write_reset(out, c);
  switch (c.script()) {
    case settlement:
      return write_settlement(out, c, scratch_);
    case reservation:
    case all_or_nothing:
      return write_joint_call(out, c, scratch_);
    default:
      return write_plain(out, c);
  }
}

void call_writer::write_plain(std::string& out, const script_call& c) {
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
  const call_tier& tier = c.tiers.front();
  const std::size_t keys = c.keys.size() * c.tiers.size();
  const std::size_t script = c.script();
  if (last_.keys == keys && last_.counts == counts && last_.tier == tier &&
      last_.script == script) {
    return last_;
  }
  last_.tier.reset();  // until it is whole
  last_.head.clear();
  last_.constants.clear();
  command_writer head(last_.head), tail(last_.constants);
  std::size_t constants = 0;
  each_argument(c.tiers, scratch_, [&](const auto& argument) {
    tail.arg(argument);
    ++constants;
  });
  head.begin(3 + keys + constants + counts);
  head.arg("EVALSHA").arg(scripts()[script].sha).arg(static_cast<std::int64_t>(keys));
  last_.script = script;
  last_.keys = keys;
  last_.counts = counts;
  last_.tier = tier;
  return last_;
}

void call_writer::write_reset(std::string& out, const script_call& c) {
  command_writer writer(out);
  writer.begin(1 + c.keys.size() * c.tiers.size()).arg("UNLINK");
  write_keys(out, c, scratch_);
}

}  // namespace weir::redis
