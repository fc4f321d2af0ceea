#include "redis/script/joint_call.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "redis/script/call_parts.hpp"
#include "redis/script/record_reply.hpp"
#include "redis/script/scripts.hpp"

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

std::optional<policies::plain_constants> plain_constants_of(const call_tier& t) {
  return std::visit(
      [&]<class Kernel>(const Kernel& k) -> std::optional<policies::plain_constants> {
        if constexpr (Kernel::kind != policies::kernel_kind::gate) return k.plain_arguments(t.cost);
        return {};
      },
      t.kernel);
}

}  // namespace

script_tiers script_tiers_of(std::span<const call_tier> tiers, script_task task) noexcept {
  // If one of two leaky buckets delays a request, the other one has to count it at the later time;
  // for a reservation, the bucket itself has to. Only the full kernels can.
  const std::size_t most_queues = task == script_task::record ? 1 : 0;
  std::size_t queues = 0;
  script_tiers found;
  for (const call_tier& t : tiers) {
    if (policies::is_spaced(t.kernel) && ++queues > most_queues) return {};
    if (!plain_constants_of(t)) return {};
    const std::string_view part = std::visit(
        []<class Kernel>(const Kernel& k) -> std::string_view {
          if constexpr (Kernel::kind != policies::kernel_kind::gate) return k.plain_script();
          return {};
        },
        t.kernel);
    found.push_back({part, t.kernel.index()});
  }
  return found;
}

std::size_t script_of(const script_call& c) noexcept {
  if (script_call::settles(c.kind)) return settlement;
  const bool reserves = c.kind == check_kind::acquire;
  if (!reserves && c.tiers.size() == 1) return script_for(c.tiers.front().kernel);
  const script_task task = reserves ? script_task::reserve : script_task::record;
  return script_for(script_tiers_of(c.tiers, task), task);
}

void pack_constants(std::string& to, std::span<const call_tier> tiers, bool may_share_keys,
                    std::optional<std::int64_t> max_wait) {
  policies::pack_number(to, may_share_keys ? 1 : 0);
  if (max_wait) policies::pack_number(to, *max_wait);
  for (const call_tier& t : tiers) {
    // Named: a temporary would be gone before the first value is read.
    const std::optional<policies::plain_constants> constants = plain_constants_of(t);
    for (const std::int64_t value : *constants) policies::pack_number(to, value);
  }
}

std::vector<std::int64_t> full_constants(const script_call& c) {
  std::vector<std::int64_t> all{static_cast<std::int64_t>(c.tiers.size())};
  for (const call_tier& t : c.tiers) {
    all.push_back(number_of(t.kernel));
    std::visit(
        [&](const auto& kernel) {
          // Named: a temporary would be gone before the first value is read.
          const policies::script_arguments constants = kernel.arguments(t.cost);
          all.insert(all.end(), constants.values().begin(), constants.values().end());
        },
        t.kernel);
  }
  if (c.kind == check_kind::acquire) all.push_back(c.max_wait);
  return all;
}

namespace {

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
  each_place(key, [&](decision& d) {
    // No cool_down_left: a request that goes at once is not in a cool-down.
    d = c.kind == check_kind::acquire ? policies::reserve_at(asked, now, c.max_wait)
                                      : policies::record_all<policies::any_replay>(asked, now);
  });
}

/// How many keys belong to checks that the full kernels have answered, in a reply that is an array:
/// such a check has `width` numbers, any other a text.
std::size_t answered_in_full(const script_call& c, const reply_view& reply, std::size_t width) {
  const std::size_t others = 2 + c.keys.size();  // the array, the time, one value for each check
  return (reply.values().size() - others) / (width - 1) * c.tiers.size();
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
  const std::vector<std::int64_t> constants = full_constants(c);
  writer.begin(3 + keys + constants.size() + counts);
  writer.arg("EVALSHA").arg(scripts()[c.script].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(out, c, scratch);
  for (const std::int64_t value : constants) writer.arg(value);
  write_counts(writer, c, counts);
}

namespace {

/// Takes one key's state from the front of a common path's text. False if it is not well-formed.
bool read_plain(const call_tier& t, std::string_view& text, std::span<std::int64_t> fields) {
  return std::visit(
      [&]<class Kernel>(const Kernel& k) {
        // Cool-downs at the end have no text if there is none.
        if constexpr (std::is_same_v<Kernel, policies::cool_down>) {
          if (text.empty()) return std::ranges::fill(fields, 0), true;
        }
        if constexpr (Kernel::kind != policies::kernel_kind::gate) {
          return k.read_plain(text, fields);
        }
        return false;
      },
      t.kernel);
}

/// Reads the states of one check.
bool read_plain(std::span<const call_tier> tiers, std::string_view& text,
                std::span<std::int64_t> fields) {
  return std::ranges::all_of(tiers, [&](const call_tier& t) {
    const auto own = fields.first(reply_width(t));
    fields = fields.subspan(own.size());
    return read_plain(t, text, own);
  });
}

/// Reads the text of a common path that has answered all checks: the time, and the states tier by
/// tier. `gap` numbers before those of each check stay as they are.
bool read_plain_reply(std::span<const call_tier> tiers, std::string_view text,
                      std::span<std::int64_t> numbers, std::size_t gap) {
  const std::size_t width = gap + reply_width(tiers);
  numbers[0] = take_time(text);
  std::size_t first = 1 + gap;
  for (const call_tier& t : tiers) {
    const std::size_t own = reply_width(t);
    const bool is_left_out = text.empty();
    for (std::size_t at = first; at < numbers.size(); at += width) {
      if (text.empty() != is_left_out) return false;
      if (!read_plain(t, text, numbers.subspan(at, own))) return false;
    }
    first += own;
  }
  return text.empty();
}

}  // namespace

bool read_found_tiers(std::span<const call_tier> tiers, const reply_view& reply,
                      std::span<std::int64_t> numbers) {
  if (reply.root().type == reply_type::bulk_string) {
    return read_plain_reply(tiers, reply.root().text, numbers, 0);
  }
  return read_mixed(reply, reply_width(tiers), numbers,
                    [&](std::string_view& text, std::span<std::int64_t> fields) {
                      return read_plain(tiers, text, fields);
                    });
}

bool read_joint_states(script_call& c, const reply_view& reply,
                       std::vector<std::int64_t>& numbers) {
  const std::size_t width = reply_width(c.tiers);
  numbers.resize(1 + c.keys.size() * width);
  if (!read_found_tiers(c.tiers, reply, numbers) || !policies::is_instant(numbers[0])) return false;
  if (c.script >= first_common_path) {
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

namespace {

/// True if these are turns, each with `width` fields behind it, and none is before `now`.
bool are_turns(std::span<const std::int64_t> numbers, std::size_t width, std::int64_t now) {
  for (std::size_t i = 0; i < numbers.size(); i += 1 + width) {
    if (!policies::is_instant(numbers[i]) || numbers[i] < now) return false;
  }
  return true;
}

}  // namespace

bool read_found_turns(std::span<const call_tier> tiers, std::span<const call_key> keys,
                      const reply_view& reply, std::vector<std::int64_t>& numbers) {
  const std::size_t width = reply_width(tiers);
  if (reply.root().type == reply_type::bulk_string) {
    numbers.assign(1 + keys.size() * (1 + width), at_once);
    return read_plain_reply(tiers, reply.root().text, numbers, 1) &&
           policies::is_instant(numbers[0]);
  }
  if (reply.root().type != reply_type::array) return false;
  std::span<const reply_value> values = reply.values().subspan(1);
  numbers.resize(1);
  if (!take_integers(values, numbers) || !policies::is_instant(numbers[0])) return false;
  for (const call_key& key : keys) {
    const std::size_t first = numbers.size();
    if (!values.empty() && values[0].type == reply_type::bulk_string) {
      std::string_view text = values[0].text;
      values = values.subspan(1);
      numbers.resize(first + 1 + width, at_once);
      if (!read_plain(tiers, text, std::span(numbers).subspan(first + 1)) || !text.empty()) {
        return false;
      }
    } else {
      numbers.resize(first + key.count * (1 + width));
      const auto own = std::span(numbers).subspan(first);
      if (!take_integers(values, own) || !are_turns(own, width, numbers[0])) return false;
    }
  }
  return values.empty();
}

bool read_reservations(script_call& c, const reply_view& reply,
                       std::vector<std::int64_t>& numbers) {
  if (!read_found_turns(c.tiers, c.keys, reply, numbers)) return false;
  const std::size_t width = 1 + reply_width(c.tiers);
  auto fields = std::span<const std::int64_t>(numbers).subspan(1);
  for (call_key& key : c.keys) {
    const bool is_at_once = fields[0] == at_once;
    const auto own = fields.first((is_at_once ? 1 : key.count) * width);
    fields = fields.subspan(own.size());
    if (is_at_once) {
      replay(c, key, own.subspan(1), numbers[0]);
    } else {
      replay_reservations(c, key, own, width, numbers[0]);
    }
  }
  return true;
}

}  // namespace weir::redis
