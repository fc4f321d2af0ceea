#include "redis/script_call.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "policy/tier_set.hpp"
#include "redis/error_reply.hpp"
#include "redis/record_reply.hpp"
#include "redis/resp_writer.hpp"
#include "redis/scripts.hpp"

namespace weir::redis {

using detail::check_kind;

namespace {

void write_keys(command_writer& writer, const script_call& c, std::string& scratch) {
  for (const call_key& key : c.keys) {
    detail::for_each_tier(key.checks.front(),
                          [&](const detail::limiter_spec& limiter, std::string_view subject,
                              std::int64_t, std::size_t tier) {
                            scratch.clear();
                            limiter.append_key(scratch, subject, tier);
                            writer.arg(scratch);
                          });
  }
  if (c.remember != policies::no_marker) {
    const detail::check& one = c.keys.front().checks.front();
    scratch.clear();
    one.limiter->append_marker(scratch, one.subject.view(), detail::marker_of(one));
    writer.arg(scratch);
  }
}

/// Calls `next` for each place, and gives its result to the place's check if that is still pending.
template <class F>
void each_place(call_key& key, F&& next) {
  std::uint32_t place = 0;
  for (detail::check& waiting : key.checks) {
    for (; place < flight_of(waiting).position; ++place) next();
    waiting.answer = next();
    ++place;
  }
}

/// Runs the kernel on the state that the script found, once per place.
template <class Kernel>
void replay(const Kernel& kernel, const script_call& c, call_key& key,
            std::span<const std::int64_t> fields, policies::instant now) {
  const std::int64_t cost = c.tiers.front().cost;
  typename Kernel::replay state;
  if (!Kernel::restore(fields, state)) {
    for (detail::check& waiting : key.checks) waiting.ec = error::wrong_type;
    return;
  }
  if (c.kind == check_kind::fetch) {
    for (detail::check& waiting : key.checks) waiting.answer = kernel.fetch(state, now, cost);
    return;
  }
  each_place(key, [&] { return kernel.record(state, now, cost); });
}

/// The states of several kernels that a script found.
class found_states {
 public:
  using tier = policies::tier<policies::any_replay>;

  found_states(const script_call& c, std::span<const std::int64_t> fields)
      : count_(c.tiers.size()) {
    for (std::size_t i = 0; i < count_; ++i) {
      std::visit(
          [&]<class Kernel>(const Kernel&) {
            auto& state = states_[i].template emplace<typename Kernel::replay>();
            ours_ = Kernel::restore(fields.first(Kernel::reply_width), state) && ours_;
            fields = fields.subspan(Kernel::reply_width);
          },
          c.tiers[i].kernel);
      tiers_[i] = {&c.tiers[i].kernel, &states_[i], c.tiers[i].cost};
    }
  }
  found_states(const found_states&) = delete;
  found_states& operator=(const found_states&) = delete;

  /// True if all keys held states that the kernels can have made.
  bool ours() const noexcept { return ours_; }
  std::span<const tier> tiers() const noexcept { return {tiers_.data(), count_}; }

 private:
  std::size_t count_;
  bool ours_ = true;
  std::array<policies::any_replay, policies::max_tiers> states_;
  std::array<tier, policies::max_tiers> tiers_;
};

/// As replay(), for several kernels.
void replay_all(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
                policies::instant now) {
  const found_states found(c, fields);
  if (!found.ours()) {
    for (detail::check& waiting : key.checks) waiting.ec = error::wrong_type;
    return;
  }
  const auto asked = found.tiers();
  if (c.kind == check_kind::fetch) {
    for (detail::check& waiting : key.checks) {
      waiting.answer = policies::fetch_all<policies::any_replay>(asked, now);
    }
    return;
  }
  each_place(key, [&] { return policies::record_all<policies::any_replay>(asked, now); });
}

/// Reads reservations: the script replies with the time of each place.
void replay_turns(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
                  std::size_t width, policies::instant now) {
  for (detail::check& waiting : key.checks) {
    const auto own = fields.subspan(flight_of(waiting).position * width, width);
    const found_states found(c, own.subspan(1));
    if (found.ours()) {
      waiting.answer = policies::book_at(found.tiers(), {now, own[0]}, c.max_wait);
      auto& asked = detail::as<detail::acquire_request>(waiting);
      if (waiting.answer.allowed && own[0] > now) asked.found.assign(own.begin() + 1, own.end());
      asked.pause = std::chrono::microseconds(policies::pause_of(found.tiers(), now));
    } else {
      waiting.ec = error::wrong_type;
    }
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

bool read_turns(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  const std::size_t width = 1 + reply_width(c);
  std::size_t places = 0;
  for (const call_key& key : c.keys) places += key.count;
  numbers.resize(1 + places * width);
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  std::span<const std::int64_t> fields(numbers);
  fields = fields.subspan(1);
  for (std::size_t i = 0; i < places; ++i) {
    const std::int64_t turn = fields[i * width];
    if (!policies::is_instant(turn) || turn < numbers[0]) return false;
  }
  for (call_key& key : c.keys) {
    replay_turns(c, key, fields.first(key.count * width), width, numbers[0]);
    fields = fields.subspan(key.count * width);
  }
  return true;
}

bool read_states(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  const std::size_t width = reply_width(c);
  numbers.resize(1 + c.keys.size() * width);
  const auto is_read = [&](const auto& kernel) { return read_found(kernel, reply, numbers); };
  const bool read = c.tiers.size() == 1 ? std::visit(is_read, c.tiers.front().kernel)
                                        : reply.integers(numbers);
  if (!read || !policies::is_instant(numbers[0])) return false;
  std::span<const std::int64_t> fields(numbers);
  fields = fields.subspan(1);
  for (call_key& key : c.keys) {
    if (c.tiers.size() == 1) {
      std::visit(
          [&](const auto& kernel) { replay(kernel, c, key, fields.first(width), numbers[0]); },
          c.tiers.front().kernel);
    } else {
      replay_all(c, key, fields.first(width), numbers[0]);
    }
    fields = fields.subspan(width);
  }
  return true;
}

bool read_settlement(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  numbers.resize(2 + reply_width(c));
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  if (numbers[1] != policies::not_done && numbers[1] != policies::done) return false;
  const bool remembered = c.remember != policies::no_marker || c.kind == check_kind::lower;
  const bool done = numbers[1] == policies::done && remembered;
  const found_states found(c, std::span<const std::int64_t>(numbers).subspan(2));
  for (detail::check& waiting : c.keys.front().checks) {
    if (found.ours()) {
      waiting.answer = policies::settled(found.tiers(), numbers[0], done);
    } else {
      waiting.ec = error::wrong_type;
    }
  }
  return true;
}

const policies::kernel& kernel_of(const call_tier& t) { return t.kernel; }

std::int64_t number_of(const policies::kernel& kernel) {
  return policies::kernel_number(kernel.index(), policies::is_spaced(kernel));
}

/// Calls f with each number that policy/lua/settle.lua takes.
template <class F>
void each_settlement_number(const script_call& c, F&& f) {
  using policies::settle_act;
  for (const std::int64_t value : {c.remember, c.tickets.turn, c.tickets.counted}) f(value);
  f(static_cast<std::int64_t>(c.tiers.size()));
  std::size_t i = 0;
  policies::each_ticket(c.tickets, c.tiers, kernel_of, [&](const auto&, const policies::ticket& t) {
    const call_tier& tier = c.tiers[i++];
    const bool lowers = c.kind == check_kind::lower;
    const settle_act act = lowers ? settle_act::lower : policies::act_of(tier.cost);
    f(number_of(tier.kernel));
    f(static_cast<std::int64_t>(act));
    // A cost of 0 only reads the state, but the kernel's arguments need a cost of at least 1.
    const std::int64_t cost = lowers ? tier.cost : std::max<std::int64_t>(1, std::abs(tier.cost));
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

/// The arguments of a kernel's own script before the counts; none for a script of several kernels.
policies::script_arguments constants_of_one(const script_call& c) {
  if (c.script() >= all_or_nothing) return {};
  return std::visit([&](const auto& k) { return record_arguments(k, c.tiers.front().cost); },
                    c.tiers.front().kernel);
}

/// Writes the arguments of a script of several kernels before the counts.
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

std::size_t constants_of(const script_call& c) {
  std::size_t count = 1 + c.tiers.size();
  if (c.kind == check_kind::acquire) count += 1;
  for (const call_tier& t : c.tiers) {
    count += std::visit([](const auto& k) { return std::decay_t<decltype(k)>::script_constants; },
                        t.kernel);
  }
  return count;
}

/// Writes the arguments of a settlement, which has one subject, or one per limiter of its set.
void write_settlement(command_writer& writer, const script_call& c, std::size_t keys,
                      std::string& scratch) {
  std::size_t numbers = 0;
  each_settlement_number(c, [&](std::int64_t) { ++numbers; });
  writer.begin(3 + keys + numbers);
  writer.arg("EVALSHA").arg(scripts()[settlement].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(writer, c, scratch);
  each_settlement_number(c, [&](std::int64_t value) { writer.arg(value); });
}

}  // namespace

void write_call(std::string& out, const script_call& c, std::string& scratch) {
  command_writer writer(out);
  const std::size_t keys = c.keys.size() * c.tiers.size() +
                           (c.remember != policies::no_marker ? 1 : 0);
  if (c.kind == check_kind::reset) {
    writer.begin(1 + keys).arg("UNLINK");
    write_keys(writer, c, scratch);
    return;
  }
  if (c.settles()) return write_settlement(writer, c, keys, scratch);
  const bool looks_only = c.kind == check_kind::fetch;
  // Trailing counts of 1 are left out.
  std::size_t counts = c.keys.size();
  if (!looks_only) {
    while (counts > 0 && c.keys[counts - 1].count == 1) --counts;
  }
  const bool is_single = c.script() < all_or_nothing;
  const policies::script_arguments own = constants_of_one(c);
  writer.begin(3 + keys + (is_single ? own.values().size() : constants_of(c)) + counts);
  writer.arg("EVALSHA").arg(scripts()[c.script()].sha).arg(static_cast<std::int64_t>(keys));
  write_keys(writer, c, scratch);
  if (is_single) {
    for (const std::int64_t value : own.values()) writer.arg(value);
  } else {
    write_constants(writer, c);
  }
  for (std::size_t i = 0; i < counts; ++i) {
    writer.arg(looks_only ? policies::look_only : std::int64_t{c.keys[i].count});
  }
}

void write_load(std::string& out, std::size_t script) {
  write_command(out, "SCRIPT", "LOAD", scripts()[script].text);
}

void write_ping(std::string& out) { write_command(out, "PING"); }

error read_reply(script_call& c, const reply_view& reply, std::vector<std::int64_t>& scratch) {
  if (c.what == script_call::command::ping) return error{};
  if (reply.is_error()) return classify_error(reply.root().text);
  if (c.what == script_call::command::load) return error{};
  if (c.kind == check_kind::reset) {
    return reply.root().type == reply_type::integer ? error{} : error::protocol_error;
  }
  const bool understood = c.settles()                     ? read_settlement(c, reply, scratch)
                          : c.kind == check_kind::acquire ? read_turns(c, reply, scratch)
                                                          : read_states(c, reply, scratch);
  return understood ? error{} : error::protocol_error;
}

}  // namespace weir::redis
