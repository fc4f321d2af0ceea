#include "redis/script/reply.hpp"

#include <algorithm>
#include <type_traits>

#include "policy/stored_doubles.hpp"
#include "redis/resp/error_reply.hpp"

namespace weir::redis {

using detail::check_kind;

namespace {

constexpr std::int64_t most_seconds = policies::max_exact / 1'000'000;

/// Reads a number and the space behind it; -1 if there is none.
std::int64_t read_digits(const char*& at, const char* end, std::int64_t most) noexcept {
  constexpr std::ptrdiff_t longest = 18;  // digits that fit in any case
  const char* const first = at;
  const char* const stop = end - first > longest ? first + longest : end;
  std::int64_t value = 0;
  for (; at != stop; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit > 9) break;
    value = 10 * value + digit;
  }
  if (at == first || at == end || *at != ' ' || value > most) return -1;
  ++at;
  return value;
}

/// Reads the clock from the front of a reply: seconds and microseconds, each with a space behind
/// it. -1 if it is not well-formed.
std::int64_t take_time(std::string_view& text) noexcept {
  const char *at = text.data(), *const end = at + text.size();
  const std::int64_t seconds = read_digits(at, end, most_seconds);
  const std::int64_t rest = seconds < 0 ? -1 : read_digits(at, end, 999'999);
  if (rest < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  return seconds * 1'000'000 + rest;
}

/// Takes one key's state from the front of a common path's text. False if it is not well-formed.
bool take_plain(const call_tier& t, std::string_view& text, std::span<std::int64_t> fields) {
  return std::visit(
      [&]<class Kernel>(const Kernel& k) {
        // Cool-downs at the end have no text if there is none. Any other text has digits.
        if constexpr (std::is_same_v<Kernel, policies::cool_down>) {
          if (text.empty() || text[0] > '9') return std::ranges::fill(fields, 0), true;
        }
        if constexpr (Kernel::kind != policies::kernel_kind::gate) {
          return k.read_plain(text, fields);
        }
        return false;
      },
      t.kernel);
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
      if (!take_plain(t, text, numbers.subspan(at, own))) return false;
    }
    first += own;
  }
  return text.empty();
}

/// Takes the states of one check: the plain ones.
bool take_plain(std::span<const call_tier> tiers, std::string_view& text,
                std::span<std::int64_t> fields) {
  return std::ranges::all_of(tiers, [&](const call_tier& t) {
    const auto own = fields.first(reply_width(t));
    fields = fields.subspan(own.size());
    return take_plain(t, text, own);
  });
}

/// True if these are turns, each with `width` fields behind it, and none is before `now`.
bool are_turns(std::span<const std::int64_t> numbers, std::size_t width, std::int64_t now) {
  for (std::size_t i = 0; i < numbers.size(); i += 1 + width) {
    if (!policies::is_instant(numbers[i]) || numbers[i] < now) return false;
  }
  return true;
}

}  // namespace

std::optional<std::size_t> read_found(std::span<const call_tier> tiers,
                                      std::span<const call_key> keys, bool reserves,
                                      std::string_view text, std::vector<std::int64_t>& numbers) {
  const std::size_t width = reply_width(tiers), gap = reserves ? 1 : 0;
  const auto is_good = [&] { return policies::is_instant(numbers[0]); };
  if (!text.starts_with('!')) {
    numbers.assign(1 + keys.size() * (gap + width), at_once);
    if (!read_plain_reply(tiers, text, numbers, gap) || !is_good()) return {};
    return 0;
  }
  text.remove_prefix(1);
  numbers.assign(1, take_time(text));
  if (!is_good()) return {};
  std::size_t in_full = 0;
  for (const call_key& key : keys) {
    const std::size_t first = numbers.size();
    const char form = text.empty() ? '\0' : text[0];
    text.remove_prefix(text.empty() ? 0 : 1);
    if (form == 'p') {
      numbers.resize(first + gap + width, at_once);
      if (!take_plain(tiers, text, std::span(numbers).subspan(first + gap))) return {};
    } else if (form == 'f') {
      const std::size_t size = reserves ? key.count * (1 + width) : width;
      numbers.resize(first + size);
      const auto own = std::span(numbers).subspan(first);
      if (!policies::take_doubles(text, size, size, own, policies::newer)) return {};
      if (reserves && !are_turns(own, width, numbers[0])) return {};
      ++in_full;
    } else {
      return {};
    }
  }
  if (!text.empty()) return {};
  return in_full;
}

/// Why a state cannot be read, by the first number that the script replied in its place.
static error unreadable(std::int64_t first) noexcept {
  return first == policies::newer ? error::newer_state : error::wrong_type;
}

found_states::found_states(std::span<const call_tier> tiers, std::span<const std::int64_t> fields) {
  for (const call_tier& t : tiers) {
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

namespace {

/// Ends the key's checks: its state cannot be read.
void answer_unreadable(call_key& key, error why) {
  for (detail::check& waiting : key.checks) waiting.ec = why;
}

/// Calls `next` for each place, with the empty answer of its check and what its further limiters
/// took, or with an unused answer if that check is not pending any more.
template <class F>
void each_check(call_key& key, F&& next) {
  std::uint32_t place = 0;
  for (detail::check& waiting : key.checks) {
    for (; place < waiting.flight.position; ++place) {
      decision unused;
      next(unused, nullptr);
    }
    next(waiting.answer, waiting.further_taken());
    ++place;
  }
}

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
  if (c.traits.looks_only) {
    for (detail::check& waiting : key.checks) waiting.answer = kernel.fetch(state, now, cost);
    return;
  }
  each_check(key, [&](decision& empty, further_receipt*) {
    record_into(empty, kernel, state, now, cost);
  });
}

/// Reads the reply for checks of one kernel. False if it is none.
template <class Kernel>
bool read_states(const Kernel& kernel, script_call& c, std::string_view text,
                 std::vector<std::int64_t>& numbers) {
  constexpr std::size_t width = Kernel::reply_width;
  bool is_read = false;
  if constexpr (Kernel::kind != policies::kernel_kind::gate) {
    if (!text.starts_with('!')) {
      // As read_found(), in half the instructions.
      numbers.resize(1 + c.keys.size() * width);
      numbers[0] = take_time(text);
      for (auto rest = std::span(numbers).subspan(1); !rest.empty(); rest = rest.subspan(width)) {
        if (!kernel.read_plain(text, rest.template first<width>())) return false;
      }
      if (!text.empty() || !policies::is_instant(numbers[0])) return false;
      is_read = true;
    }
  }
  if (!is_read && !read_found(c.tiers, c.keys, false, text, numbers)) return false;
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
bool read_without_cool_down(script_call& c, std::string_view text,
                            std::vector<std::int64_t>& numbers) {
  if (c.tiers.size() != 2 || c.tiers[1].kernel != policies::kernel(policies::cool_down()) ||
      text.starts_with('!')) {
    return false;
  }
  const bool is_read = std::visit([&](const auto& k) { return read_states(k, c, text, numbers); },
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

/// Runs the kernels on the states that the script found, once per place.
void replay(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
            policies::instant now) {
  const found_states found(c.tiers, fields);
  if (found.failure() != error{}) return answer_unreadable(key, found.failure());
  const auto asked = found.tiers();
  if (c.traits.looks_only) {
    for (detail::check& waiting : key.checks) {
      waiting.answer = policies::fetch_all<policies::any_replay>(asked, now);
    }
    return;
  }
  each_check(key, [&](decision& d, further_receipt* further) {
    // No cool_down_left: a request that goes at once is not in a cool-down.
    d = c.traits.waits ? policies::reserve_at(asked, now, c.max_wait, further)
                       : policies::record_all<policies::any_replay>(asked, now, further);
  });
}

bool read_joint_states(script_call& c, std::string_view text, std::vector<std::int64_t>& numbers) {
  const auto in_full = read_found(c.tiers, c.keys, false, text, numbers);
  if (!in_full) return false;
  if (list_of_script(c.script).has_common_path) {
    c.answered_keys = c.keys.size() * c.tiers.size();
    c.costly_keys = *in_full * c.tiers.size();
  }
  const std::size_t width = reply_width(c.tiers);
  auto fields = std::span<const std::int64_t>(numbers).subspan(1);
  for (call_key& key : c.keys) {
    replay(c, key, fields.first(width), numbers[0]);
    fields = fields.subspan(width);
  }
  return true;
}

void replay_reservations(const script_call& c, call_key& key, std::span<const std::int64_t> fields,
                         std::size_t width, policies::instant now) {
  for (detail::check& waiting : key.checks) {
    const auto own = fields.subspan(waiting.flight.position * width, width);
    const found_states found(c.tiers, own.subspan(1));
    if (found.failure() == error{}) {
      waiting.answer = policies::reserve_at(found.tiers(), {now, own[0]}, c.max_wait,
                                            waiting.further_taken());
      auto& asked = detail::as<detail::acquire_request>(waiting);
      if (waiting.answer.allowed && own[0] > now) asked.found.assign(own.begin() + 1, own.end());
      asked.cool_down_left = std::chrono::microseconds(
          policies::cool_down_left(found.tiers(), now));
    } else {
      waiting.ec = found.failure();
    }
  }
}

bool read_reservations(script_call& c, std::string_view text, std::vector<std::int64_t>& numbers) {
  if (!read_found(c.tiers, c.keys, true, text, numbers)) return false;
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

bool read_settlement(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  numbers.resize(2 + reply_width(c.tiers));
  if (!reply.integers(numbers) || !policies::is_instant(numbers[0])) return false;
  if (numbers[1] != policies::not_done && numbers[1] != policies::done) return false;
  const bool remembered = c.settling->remember != policies::no_marker || c.settling->lowers;
  const bool done = numbers[1] == policies::done && remembered;
  const found_states found(c.tiers, std::span<const std::int64_t>(numbers).subspan(2));
  if (found.failure() != error{}) {
    answer_unreadable(c.keys.front(), found.failure());
    return true;
  }
  for (detail::check& waiting : c.keys.front().checks) {
    waiting.answer = policies::settled(found.tiers(), numbers[0], done);
  }
  return true;
}

bool read_answers(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers) {
  if (c.script == settlement) return read_settlement(c, reply, numbers);
  if (reply.root().type != reply_type::bulk_string) return false;
  const std::string_view text = reply.root().text;
  if (c.traits.waits) return read_reservations(c, text, numbers);
  if (c.tiers.size() > 1) {
    return read_without_cool_down(c, text, numbers) || read_joint_states(c, text, numbers);
  }
  return std::visit([&](const auto& k) { return read_states(k, c, text, numbers); },
                    c.tiers.front().kernel);
}

}  // namespace

error read_reply(script_call& c, const reply_view& reply, std::vector<std::int64_t>& scratch) {
  if (reply.is_error()) return classify_error(reply.root().text);
  if (!c.has_script()) {
    return reply.root().type == reply_type::integer ? error{} : error::protocol_error;
  }
  return read_answers(c, reply, scratch) ? error{} : error::protocol_error;
}

}  // namespace weir::redis
