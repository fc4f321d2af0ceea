#include "redis/script/call_writer.hpp"

#include <algorithm>
#include <cstdlib>

#include "redis/resp/resp_writer.hpp"
#include "redis/script/similar_arguments.hpp"

namespace weir::redis {

using detail::check_kind;

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

/// Writes the keys of the call's checks, tier by tier.
void write_keys(std::string& out, const script_call& c, std::string& scratch) {
  const detail::check& one = c.keys.front().checks.front();
  // A call that starts a cool-down has only the cool-down tier of its limiter.
  const bool is_joint = !one.further().empty() || c.tiers.size() != one.limiter->tiers.size();
  const auto write = is_joint ? write_joint_tier : write_tier;
  for (std::size_t tier = 0; tier < c.tiers.size(); ++tier) write(out, c, tier, scratch);
}

/// The number of counts in the call: trailing counts of 1 are left out.
std::size_t counts_in(const script_call& c) {
  std::size_t counts = c.keys.size();
  if (c.traits.looks_only) return counts;
  while (counts > 0 && c.keys[counts - 1].count == 1) --counts;
  return counts;
}

void write_counts(command_writer& writer, const script_call& c, std::size_t counts) {
  for (std::size_t i = 0; i < counts; ++i) {
    writer.arg(c.traits.looks_only ? policies::look_only : std::int64_t{c.keys[i].count});
  }
}

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
        const settle_act act = terms.lowers ? settle_act::lower : policies::act_of(tier.cost);
        f(policies::kernel_number(tier.kernel.index(), policies::is_leaky(tier.kernel)));
        f(static_cast<std::int64_t>(act));
        // A cost of 0 only reads the state, but the kernel's arguments need a cost of at least 1.
        const std::int64_t cost = terms.lowers ? tier.cost
                                               : std::max<std::int64_t>(1, std::abs(tier.cost));
        const policies::kernel asked = act == settle_act::charge ? policies::charging(tier.kernel)
                                                                 : tier.kernel;
        std::visit(
            [&](const auto& kernel) {
              for (const std::int64_t value : kernel.arguments(cost)) f(value);
            },
            asked);
        if (act != settle_act::give_back) return;
        f(static_cast<std::int64_t>(t.numbers()));
        t.each_number(f);
      });
}

}  // namespace

void pack_argument(std::string& to, std::span<const call_tier> tiers, bool has_common_path,
                   bool may_share_keys, std::int64_t max_wait) {
  std::int64_t flags = has_common_path && may_share_keys ? 1 : 0;
  for (std::size_t t = 0; !has_common_path && t < tiers.size(); ++t) {
    if (policies::is_leaky(tiers[t].kernel)) flags += std::int64_t{2} << t;
  }
  if (tiers.size() > 1 || !has_common_path) policies::pack_number(to, flags);
  policies::pack_number(to, max_wait);
  for (const call_tier& t : tiers) {
    std::visit(
        [&]<class Kernel>(const Kernel& kernel) {
          if constexpr (Kernel::kind == policies::kernel_kind::gate) {
            kernel.pack_constants(to, t.cost);
          } else if (has_common_path) {
            kernel.pack_common_constants(to, t.cost);
          } else {
            for (const std::int64_t value : kernel.arguments(t.cost)) {
              policies::pack_number(to, value);
            }
          }
        },
        t.kernel);
  }
}

void call_writer::write(std::string& out, const script_call& c) {
  const std::size_t begin = out.size();
  write_by_name(out, c);
  if (c.has_text) put_text(out, begin, scripts()[c.script]);
}

void call_writer::write_by_name(std::string& out, const script_call& c) {
  if (!c.has_script()) return write_reset(out, c);
  if (c.script == settlement) return write_settlement(out, c);
  write_framed(out, c);
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
  // Checks and reservations have the same script.
  const std::int64_t max_wait = c.traits.waits ? c.max_wait : -1;
  if (last_.keys == keys && last_.counts == counts && last_.script == c.script &&
      last_.max_wait == max_wait && last_.may_share_keys == may_share_keys &&
      std::ranges::equal(last_.tiers, c.tiers)) {
    return last_;
  }
  last_.tiers.clear();  // until it is whole
  last_.head.clear();
  last_.constants.clear();
  command_writer head(last_.head), tail(last_.constants);
  scratch_.clear();
  pack_argument(scratch_, c.tiers, list_of_script(c.script).has_common_path, may_share_keys,
                max_wait);
  tail.arg(scratch_);
  head.begin(4 + keys + counts);
  head.arg("EVALSHA").arg(scripts()[c.script].sha).arg(static_cast<std::int64_t>(keys));
  last_.keys = keys;
  last_.counts = counts;
  last_.script = c.script;
  last_.max_wait = max_wait;
  last_.may_share_keys = may_share_keys;
  last_.tiers.assign(c.tiers.begin(), c.tiers.end());
  return last_;
}

void call_writer::write_settlement(std::string& out, const script_call& c) {
  const bool has_marker = c.settling->remember != policies::no_marker;
  const std::size_t keys = c.tiers.size() + (has_marker ? 1 : 0);
  std::size_t numbers = 0;
  each_number(c, [&](std::int64_t) { ++numbers; });
  command_writer writer(out);
  writer.begin(3 + keys + numbers);
  writer.arg("EVALSHA").arg(scripts()[settlement].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(out, c, scratch_);
  if (has_marker) {
    const detail::check& one = c.keys.front().checks.front();
    scratch_.clear();
    one.limiter->append_marker(scratch_, one.subject.view(), detail::settlement_id_of(one));
    writer.arg(scratch_);
  }
  each_number(c, [&](std::int64_t value) { writer.arg(value); });
}

void call_writer::write_reset(std::string& out, const script_call& c) {
  command_writer writer(out);
  writer.begin(1 + c.keys.size() * c.tiers.size()).arg("UNLINK");
  write_keys(out, c, scratch_);
}

}  // namespace weir::redis
