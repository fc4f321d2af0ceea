#include "redis/script/settlement_call.hpp"

#include <algorithm>
#include <cstdlib>

#include "redis/script/call_parts.hpp"
#include "redis/script/joint_call.hpp"
#include "redis/script/scripts.hpp"

namespace weir::redis {

using detail::check_kind;

settlement_terms settlement_terms_of(const detail::check& c) {
  settlement_terms terms{detail::tickets_of(c)};
  if (c.kind == check_kind::give_back) {
    terms.remember = policies::shortest_marker;  // outlasts the repetitions of a give-back
  } else if (c.kind == check_kind::settle) {
    const auto& asked = detail::as<detail::settle_request>(c);
    if (asked.id != 0) terms.remember = detail::marker_needed_until(asked.about);
  }
  return terms;
}

namespace {

const policies::kernel& kernel_of(const call_tier& t) { return t.kernel; }

/// Calls f with each number that the script takes.
template <class F>
void each_number(const script_call& c, F&& f) {
  using policies::settle_act;
  const settlement_terms& terms = *c.settling;
  f(terms.remember);
  f(terms.tickets.counted);
  f(static_cast<std::int64_t>(c.tiers.size()));
  std::size_t i = 0;
  policies::each_ticket(
      terms.tickets, c.tiers, kernel_of, [&](const auto&, const policies::ticket& t) {
        const call_tier& tier = c.tiers[i++];
        const bool lowers = c.kind == check_kind::lower;
        const settle_act act = lowers ? settle_act::lower : policies::act_of(tier.cost);
        f(number_of(tier.kernel));
        f(static_cast<std::int64_t>(act));
        // A cost of 0 only reads the state, but the kernel's arguments need a cost of at least 1.
        const std::int64_t cost = lowers ? tier.cost
                                         : std::max<std::int64_t>(1, std::abs(tier.cost));
        const policies::kernel asked = act == settle_act::charge ? policies::charging(tier.kernel)
                                                                 : tier.kernel;
        std::visit(
            [&](const auto& kernel) {
              // Named: a temporary would be gone before the first value is read.
              const policies::script_arguments constants = kernel.arguments(cost);
              for (const std::int64_t value : constants.values()) f(value);
            },
            asked);
        if (act != settle_act::give_back) return;
        f(static_cast<std::int64_t>(t.numbers()));
        t.each_number(f);
      });
}

}  // namespace

void write_settlement(std::string& out, const script_call& c, std::string& scratch) {
  const bool has_marker = c.settling->remember != policies::no_marker;
  const std::size_t keys = c.tiers.size() + (has_marker ? 1 : 0);
  std::size_t numbers = 0;
  each_number(c, [&](std::int64_t) { ++numbers; });
  command_writer writer(out);
  writer.begin(3 + keys + numbers);
  writer.arg("EVALSHA").arg(scripts()[settlement].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(out, c, scratch);
  if (has_marker) {
    const detail::check& one = c.keys.front().checks.front();
    scratch.clear();
    one.limiter->append_marker(scratch, one.subject.view(), detail::settlement_id_of(one));
    writer.arg(scratch);
  }
  each_number(c, [&](std::int64_t value) { writer.arg(value); });
}

bool read_settlement(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  numbers.resize(2 + reply_width(c.tiers));
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  if (numbers[1] != policies::not_done && numbers[1] != policies::done) return false;
  const bool remembered = c.settling->remember != policies::no_marker ||
                          c.kind == check_kind::lower;
  const bool done = numbers[1] == policies::done && remembered;
  const found_states found(c, std::span<const std::int64_t>(numbers).subspan(2));
  if (found.failure() != error{}) {
    answer_unreadable(c.keys.front(), found.failure());
    return true;
  }
  for (detail::check& waiting : c.keys.front().checks) {
    waiting.answer = policies::settled(found.tiers(), numbers[0], done);
  }
  return true;
}

}  // namespace weir::redis
