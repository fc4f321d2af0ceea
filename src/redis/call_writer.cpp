#include "redis/call_writer.hpp"

#include "redis/call_parts.hpp"
#include "redis/joint_call.hpp"
#include "redis/record_reply.hpp"
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
  const std::size_t keys = c.keys.size();
  if (last_.keys == keys && last_.counts == counts && last_.tier == tier) return last_;
  last_.tier.reset();  // until it is whole
  last_.head.clear();
  last_.constants.clear();
  const policies::script_arguments constants = std::visit(
      [&](const auto& k) { return record_arguments(k, tier.cost); }, tier.kernel);
  command_writer head(last_.head), tail(last_.constants);
  head.begin(3 + keys + constants.count() + counts);
  head.arg("EVALSHA").arg(scripts()[c.script()].sha).arg(static_cast<std::int64_t>(keys));
  constants.each([&](const auto& argument) { tail.arg(argument); });
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
