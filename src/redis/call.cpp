#include "redis/call.hpp"

#include <algorithm>

#include "redis/error_reply.hpp"
#include "redis/resp_writer.hpp"
#include "redis/scripts.hpp"

namespace weir::redis {
namespace {

std::string_view subject_of(const call_key& key) { return key.checks.front().subject.view(); }

void write_keys(command_writer& writer, const call& c, std::string& scratch) {
  for (const call_key& key : c.keys) {
    scratch.clear();
    c.limiter->append_key(scratch, subject_of(key));
    writer.arg(scratch);
  }
}

/// Runs the kernel on the state that the script found, once for every place, and gives each check that still waits what
/// came out at its place.
template <class Kernel>
void replay(const Kernel& kernel, const call& c, call_key& key,
            std::span<const std::int64_t> fields, policies::instant now) {
  typename Kernel::replay state;
  if (!Kernel::restore(fields, state)) {
    for (detail::check& waiting : key.checks) waiting.ec = error::wrong_type;
    return;
  }
  if (c.what == call::purpose::fetch) {
    for (detail::check& waiting : key.checks) waiting.answer = kernel.fetch(state, now, c.cost);
    return;
  }
  std::uint32_t place = 0;
  for (detail::check& waiting : key.checks) {
    for (; place < waiting.position; ++place) kernel.record(state, now, c.cost);
    waiting.answer = kernel.record(state, now, c.cost);
    ++place;
  }
}

template <class Kernel>
bool read_states(const Kernel& kernel, call& c, const reply_view& reply,
                 std::vector<std::int64_t>& numbers) {
  numbers.resize(1 + c.keys.size() * Kernel::reply_width);
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  std::span<const std::int64_t> fields(numbers);
  fields = fields.subspan(1);
  for (call_key& key : c.keys) {
    replay(kernel, c, key, fields.first(Kernel::reply_width), numbers[0]);
    fields = fields.subspan(Kernel::reply_width);
  }
  return true;
}

}  // namespace

void write_call(std::string& out, const call& c, std::string& scratch) {
  command_writer writer(out);
  if (c.what == call::purpose::reset) {
    writer.begin(1 + c.keys.size()).arg("UNLINK");
    write_keys(writer, c, scratch);
    return;
  }
  std::visit(
      [&](const auto& kernel) {
        const policies::script_arguments constants = kernel.arguments(c.cost);
        const bool looks_only = c.what == call::purpose::fetch;
        // Counts are left out from the first run of ones to the end.
        std::size_t counts = c.keys.size();
        if (!looks_only) {
          while (counts > 0 && c.keys[counts - 1].count == 1) --counts;
        }
        writer.begin(3 + c.keys.size() + constants.values().size() + counts);
        writer.arg("EVALSHA").arg(scripts()[c.kernel->index()].sha);
        writer.arg(static_cast<std::int64_t>(c.keys.size()));
        write_keys(writer, c, scratch);
        for (const std::int64_t value : constants.values()) writer.arg(value);
        for (std::size_t i = 0; i < counts; ++i) {
          writer.arg(looks_only ? std::int64_t{0} : std::int64_t{c.keys[i].count});
        }
      },
      *c.kernel);
}

void write_load(std::string& out, std::size_t script) {
  write_command(out, "SCRIPT", "LOAD", scripts()[script].text);
}

void write_ping(std::string& out) { write_command(out, "PING"); }

error read_reply(call& c, const reply_view& reply, std::vector<std::int64_t>& scratch) {
  if (c.what == call::purpose::upkeep) return error{};
  if (reply.is_error()) return classify_error(reply.root().text);
  if (c.what == call::purpose::reset) {
    return reply.root().type == reply_type::integer ? error{} : error::protocol_error;
  }
  const bool understood = std::visit(
      [&](const auto& kernel) { return read_states(kernel, c, reply, scratch); }, *c.kernel);
  return understood ? error{} : error::protocol_error;
}

}  // namespace weir::redis
