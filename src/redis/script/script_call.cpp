#include "redis/script/script_call.hpp"

#include <type_traits>

#include "redis/resp/error_reply.hpp"
#include "redis/script/call_parts.hpp"
#include "redis/script/joint_call.hpp"
#include "redis/script/record_reply.hpp"
#include "redis/script/settlement_call.hpp"

namespace weir::redis {

using detail::check_kind;

namespace {

/// True if the state that a script found tells whether the key was costly. A log's summary does
/// not.
template <class Kernel>
constexpr bool tells_cost = Kernel::kind == policies::kernel_kind::bucket ||
                            std::is_same_v<typename Kernel::replay, typename Kernel::state>;

/// True if the key was costly for the server; see call_size.
template <class Kernel>
bool is_costly(const Kernel& kernel, const typename Kernel::replay& found, policies::instant now) {
  if constexpr (Kernel::kind == policies::kernel_kind::bucket) {
    return found == typename Kernel::state{};
  } else if constexpr (tells_cost<Kernel>) {
    return kernel.matters_until(found) <= now;
  } else {
    return false;
  }
}

/// Runs the kernel on the state that the script found, once per place.
template <class Kernel>
void replay(const Kernel& kernel, script_call& c, call_key& key,
            std::span<const std::int64_t> fields, policies::instant now) {
  const std::int64_t cost = c.tiers.front().cost;
  typename Kernel::replay state;
  if (!Kernel::restore(fields, state)) return answer_unreadable(key, unreadable(fields[0]));
  c.costly_keys += is_costly(kernel, state, now);
  if (c.kind == check_kind::fetch) {
    for (detail::check& waiting : key.checks) waiting.answer = kernel.fetch(state, now, cost);
    return;
  }
  each_place(key, [&](decision& empty) { record_into(empty, kernel, state, now, cost); });
}

/// Reads the reply of one kernel's own script. False if it is none.
template <class Kernel>
bool read_states(const Kernel& kernel, script_call& c, const reply_view& reply,
                 std::vector<std::int64_t>& numbers) {
  constexpr std::size_t width = Kernel::reply_width;
  numbers.resize(1 + c.keys.size() * width);
  if (!read_found(kernel, reply, numbers) || !policies::is_instant(numbers[0])) return false;
  auto fields = std::span<const std::int64_t>(numbers).subspan(1);
  for (std::size_t i = 0; i < c.keys.size(); ++i) {
    if (i + 2 < c.keys.size()) prefetch_checks(c.keys[i + 2]);
    replay(kernel, c, c.keys[i], fields.first(width), numbers[0]);
    fields = fields.subspan(width);
  }
  if constexpr (tells_cost<Kernel>) c.answered_keys = c.keys.size();
  return true;
}

/// Reads the reply for a limiter with one policy and `cool_downs` if no check has a cool-down: the
/// first kernel alone decides, with half the instructions of read_joint_states(). False for any
/// other reply.
bool read_without_cool_down(script_call& c, const reply_view& reply,
                            std::vector<std::int64_t>& numbers) {
  if (c.tiers.size() != 2 || c.tiers[1].kernel != policies::kernel(policies::cool_down()) ||
      reply.root().type != reply_type::bulk_string) {
    return false;
  }
  const bool is_read = std::visit([&](const auto& k) { return read_states(k, c, reply, numbers); },
                                  c.tiers.front().kernel);
  if (!is_read) return false;
  // What policies::record_all() adds: when the tiers counted.
  for (call_key& key : c.keys) {
    for (detail::check& waiting : key.checks) {
      decision& d = waiting.answer;
      if (d.allowed) d.receipt.counted_at = d.decided_at.time_since_epoch().count();
    }
  }
  c.answered_keys = c.keys.size() * c.tiers.size();
  c.costly_keys = 0;  // for calls of several tiers, only those that full kernels have answered
  return true;
}

bool read_answers(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  if (c.script == settlement) return read_settlement(c, reply, numbers);
  if (c.kind == check_kind::acquire) return read_reservations(c, reply, numbers);
  if (c.tiers.size() > 1) {
    return read_without_cool_down(c, reply, numbers) || read_joint_states(c, reply, numbers);
  }
  return std::visit([&](const auto& k) { return read_states(k, c, reply, numbers); },
                    c.tiers.front().kernel);
}

}  // namespace

error read_reply(script_call& c, const reply_view& reply, std::vector<std::int64_t>& scratch) {
  if (reply.is_error()) return classify_error(reply.root().text);
  if (c.kind == check_kind::reset) {
    return reply.root().type == reply_type::integer ? error{} : error::protocol_error;
  }
  return read_answers(c, reply, scratch) ? error{} : error::protocol_error;
}

}  // namespace weir::redis
