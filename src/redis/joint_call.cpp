#include "redis/joint_call.hpp"

#include <algorithm>
#include <optional>

#include "redis/call_parts.hpp"
#include "redis/record_reply.hpp"
#include "redis/scripts.hpp"

namespace weir::redis {

using detail::check_kind;

found_states::found_states(const script_call& c, std::span<const std::int64_t> fields) {
  for (const call_tier& t : c.tiers) {
    std::visit(
        [&]<class Kernel>(const Kernel&) {
          using replay = typename Kernel::replay;
          auto& state = std::get<replay>(states_.emplace_back(std::in_place_type<replay>));
          const bool is_read = Kernel::restore(fields.first(Kernel::reply_width), state);
          if (!is_read && failure_ != error::newer_state) failure_ = unreadable(fields[0]);
          fields = fields.subspan(Kernel::reply_width);
        },
        t.kernel);
    tiers_.push_back({&t.kernel, &states_.back(), t.cost});
  }
}

std::int64_t number_of(const policies::kernel& kernel) {
  return policies::kernel_number(kernel.index(), policies::is_spaced(kernel));
}

namespace {

std::optional<policies::joint_constants> joint_constants_of(const call_tier& t) {
  return std::visit(
      [&]<class Kernel>(const Kernel& k) -> std::optional<policies::joint_constants> {
        if constexpr (Kernel::has_joint_path) return k.joint_arguments(t.cost);
        return {};
      },
      t.kernel);
}

}  // namespace

bool takes_common_path(std::span<const call_tier> tiers) {
  // If one of two leaky buckets delays a request, the other has to count it at that later time.
  // Only the full kernels do so.
  std::size_t queues = 0;
  for (const call_tier& t : tiers) {
    if (policies::is_spaced(t.kernel) && ++queues > 1) return false;
    if (!joint_constants_of(t)) return false;
  }
  return true;
}

std::size_t script_of(std::span<const call_tier> tiers) noexcept {
  if (tiers.size() == 1) return tiers[0].kernel.index();
  const bool may_cool_down = tiers.size() == 2 &&
                             tiers[0].kernel.index() < kernels_with_cool_downs &&
                             tiers[1].kernel == policies::kernel(policies::cool_down());
  return may_cool_down && takes_common_path(tiers) ? with_cool_downs + tiers[0].kernel.index()
                                                   : all_or_nothing;
}

void pack_constants(std::string& to, std::span<const call_tier> tiers) {
  for (const call_tier& t : tiers) {
    policies::pack_number(to, policies::kernel_number(t.kernel.index(), false));
    // Named: a temporary would be gone before the first value is read.
    const std::optional<policies::joint_constants> constants = joint_constants_of(t);
    for (const std::int64_t value : *constants) policies::pack_number(to, value);
  }
}

namespace {

/// What full kernels take before the counts.
std::size_t constants_of(const script_call& c) {
  std::size_t count = 1 + c.tiers.size();
  if (c.kind == check_kind::acquire) count += 1;
  for (const call_tier& t : c.tiers) {
    count += std::visit([](const auto& k) { return std::decay_t<decltype(k)>::script_constants; },
                        t.kernel);
  }
  return count;
}

void write_constants(command_writer& writer, const script_call& c) {
  if (c.kind == check_kind::acquire) writer.arg(c.max_wait);
  writer.arg(static_cast<std::int64_t>(c.tiers.size()));
  for (const call_tier& t : c.tiers) {
    writer.arg(number_of(t.kernel));
    std::visit(
        [&](const auto& kernel) {
          // Named: a temporary would be gone before the first value is read.
          const policies::script_arguments constants = kernel.arguments(t.cost);
          for (const std::int64_t value : constants.values()) writer.arg(value);
        },
        t.kernel);
  }
}

/// Runs the kernels on the states that the script found, once per place.
void replay(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
            policies::instant now) {
  const found_states found(c, fields);
  if (found.failure() != error{}) return answer_unreadable(key, found.failure());
  const auto asked = found.tiers();
  if (c.kind == check_kind::fetch) {
    for (detail::check& waiting : key.checks) {
      waiting.answer = policies::fetch_all<policies::any_replay>(asked, now);
    }
    return;
  }
  each_place(key, [&](decision& d) { d = policies::record_all<policies::any_replay>(asked, now); });
}

/// How many keys belong to checks that the full kernels have answered, in a reply that is an array:
/// they have an array for each check, and the common path a text.
std::size_t answered_in_full(const script_call& c, const reply_view& reply, std::size_t width) {
  const std::size_t others = 2 + c.keys.size();  // the outer array, the time, one for each check
  return (reply.values().size() - others) / width * c.tiers.size();
}

void replay_reservations(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
                         std::size_t width, policies::instant now) {
  for (detail::check& waiting : key.checks) {
    const auto own = fields.subspan(flight_of(waiting).position * width, width);
    const found_states found(c, own.subspan(1));
    if (found.failure() == error{}) {
      waiting.answer = policies::reserve_at(found.tiers(), {now, own[0]}, c.max_wait);
      auto& asked = detail::as<detail::acquire_request>(waiting);
      if (waiting.answer.allowed && own[0] > now) asked.found.assign(own.begin() + 1, own.end());
      asked.cool_down_left = std::chrono::microseconds(
          policies::cool_down_left(found.tiers(), now));
    } else {
      waiting.ec = found.failure();
    }
  }
}

}  // namespace

void write_joint_call(std::string& out, const script_call& c, std::string& scratch) {
  command_writer writer(out);
  const std::size_t keys = c.keys.size() * c.tiers.size();
  const std::size_t counts = counts_in(c);
  const bool is_common = c.script() == all_or_nothing && takes_common_path(c.tiers);
  writer.begin(3 + keys + (is_common ? 1 : constants_of(c)) + counts);
  writer.arg("EVALSHA").arg(scripts()[c.script()].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(out, c, scratch);
  if (is_common) {
    scratch.clear();
    pack_constants(scratch, c.tiers);
    writer.arg(scratch);
  } else {
    write_constants(writer, c);
  }
  write_counts(writer, c, counts);
}

bool read_plain_tiers(std::span<const call_tier> tiers, std::string_view& text,
                      std::span<std::int64_t> fields) {
  return std::ranges::all_of(tiers, [&](const call_tier& t) {
    return std::visit(
        [&]<class Kernel>(const Kernel& k) {
          const auto own = fields.first(Kernel::reply_width);
          fields = fields.subspan(Kernel::reply_width);
          if constexpr (Kernel::has_joint_path) return k.read_plain(text, own);
          return false;
        },
        t.kernel);
  });
}

bool read_beside_cool_down(std::span<const call_tier> tiers, std::string_view& text,
                           std::span<std::int64_t> fields) {
  std::ranges::fill(fields, 0);
  if (!read_plain_tiers(tiers.first(1), text, fields)) return false;
  if (text.empty()) return true;
  return read_plain_tiers(tiers.last(1), text, fields.last(policies::cool_down::reply_width));
}

bool read_joint_states(script_call& c, const reply_view& reply,
                       std::vector<std::int64_t>& numbers) {
  const std::size_t width = reply_width(c);
  numbers.resize(1 + c.keys.size() * width);
  const bool is_beside = c.is_beside_cool_downs();
  const auto read_plain = [&](std::string_view& text, std::span<std::int64_t> fields) {
    return is_beside ? read_beside_cool_down(c.tiers, text, fields)
                     : read_plain_tiers(c.tiers, text, fields);
  };
  if (!read_found(reply, width, numbers, read_plain) || !policies::is_instant(numbers[0])) {
    return false;
  }
  if (takes_common_path(c.tiers)) {
    c.answered_keys = c.keys.size() * c.tiers.size();
    if (reply.root().type == reply_type::array) c.costly_keys = answered_in_full(c, reply, width);
  }
  auto fields = std::span<const std::int64_t>(numbers).subspan(1);
  for (call_key& key : c.keys) {
    replay(c, key, fields.first(width), numbers[0]);
    fields = fields.subspan(width);
  }
  return true;
}

bool read_reservations(script_call& c, const reply_view& reply,
                       std::vector<std::int64_t>& numbers) {
  const std::size_t width = 1 + reply_width(c);
  std::size_t places = 0;
  for (const call_key& key : c.keys) places += key.count;
  numbers.resize(1 + places * width);
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  auto fields = std::span<const std::int64_t>(numbers).subspan(1);
  for (std::size_t i = 0; i < places; ++i) {
    const std::int64_t turn = fields[i * width];
    if (!policies::is_instant(turn) || turn < numbers[0]) return false;
  }
  for (call_key& key : c.keys) {
    replay_reservations(c, key, fields.first(key.count * width), width, numbers[0]);
    fields = fields.subspan(key.count * width);
  }
  return true;
}

}  // namespace weir::redis
