#include "policy/meter.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <charconv>
#include <numeric>
#include <string>
#include <string_view>

#include "policy/lua_sources.hpp"

namespace weir::policies {

namespace {

/// Reads 16 digits; -1 if these are no digits. Eight digits at a time become pairs, then fours,
/// then one number.
std::int64_t sixteen_digits(const char* at) noexcept {
  const auto eight = [](const char* from, std::uint64_t& number) {
    std::uint64_t word = boost::endian::load_little_u64(
        reinterpret_cast<const unsigned char*>(from));
    constexpr std::uint64_t upper = 0xf0f0f0f0f0f0f0f0u, zeros = 0x3030303030303030u;
    const bool are_digits = (word & upper) == zeros &&
                            ((word + 0x0606060606060606u) & upper) == zeros;
    word = (word & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;
    word = (word & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
    number = (word & 0x0000ffff0000ffffu) * 42949672960001 >> 32;
    return are_digits;
  };
  std::uint64_t first = 0, last = 0;
  if (!eight(at, first) || !eight(at + 8, last)) return -1;
  return static_cast<std::int64_t>(first * 100'000'000 + last);
}

/// Takes a number, 0 or more, from the front of the text.
bool take_number(std::string_view& text, std::int64_t& number) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return problem == std::errc() && number >= 0;
}

/// Takes "whole" or "whole/part", and the space behind it.
bool take_parts(std::string_view& text, std::int64_t& whole, std::int64_t& part) noexcept {
  if (!take_number(text, whole)) return false;
  if (text.starts_with('/')) {
    text.remove_prefix(1);
    if (!take_number(text, part)) return false;
  }
  if (text.empty()) return true;
  if (!text.starts_with(' ')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

bool meter::later(const state& a, const state& b) noexcept {
  return a.whole != b.whole ? a.whole > b.whole : a.part > b.part;
}

instant meter::difference(const state& a, const state& b) noexcept {
  return a.whole - b.whole + (a.part > b.part ? 1 : 0);
}

meter::meter(std::int64_t count, span period, units burst, bool leaky) noexcept
    : burst_(burst), leaky_(leaky) {
  const std::int64_t divisor = std::gcd(count, period);
  parts_ = count / divisor;
  interval_ = period / divisor;
  tolerance_ = time_of(burst);
}

bool meter::fits(std::int64_t count, span period, units burst) noexcept {
  return static_cast<wide>(burst) * period / count < longest_debt;
}

meter::state meter::time_of(units cost) const noexcept {
  const wide product = static_cast<wide>(cost) * interval_;
  if (product / parts_ >= longest_debt) return {longest_debt};
  return {static_cast<instant>(product / parts_), static_cast<std::int64_t>(product % parts_)};
}

meter::state meter::plus(const state& a, const state& b) const noexcept {
  state sum{a.whole + b.whole, a.part + b.part};
  if (sum.part >= parts_) {
    sum.part -= parts_;
    ++sum.whole;
  }
  return sum;
}

meter::state meter::minus(const state& a, const state& b) const noexcept {
  const bool borrows = a.part < b.part;
  return {a.whole - b.whole - (borrows ? 1 : 0), a.part - b.part + (borrows ? parts_ : 0)};
}

/// Rounds up what another rate wrote with other parts, and forgets what was given back once no
/// receipt can meet it.
meter::state meter::remembered(state s, instant clock) const noexcept {
  if (s.part >= parts_) s = {s.whole + 1, 0, s.ahead, s.returned, s.until};
  if (s.until <= clock) s.returned = s.until = 0;
  return s;
}

meter::state meter::seen_at(const state& s, instant clock) const noexcept {
  state seen = remembered(s, clock);
  if (!is_far_ahead(s, clock)) return seen;
  const span early = own_time(s) - clock;
  seen.whole -= early;
  seen.ahead = reservations_ahead{clock, s.ahead.turn - early}.after(clock);
  // Counted as given back, because earlier receipts have a TAT that lies so much further ahead.
  seen.returned = add_up_to(seen.returned, early, max_exact);
  seen.until = std::max(clock + 2 * tolerance_.whole, rounded_up(seen));
  return seen;
}

meter::verdict meter::judge(const state& s, request_time now, units cost) const noexcept {
  verdict v;
  v.latest_known_past = std::max(now.clock, s.ahead.written);
  v.at = std::max(now.when, v.latest_known_past);
  const state begin = now.when > v.latest_known_past ? earliest(v.at) : state{v.at};
  v.base = later(s, begin) ? s : begin;
  v.next = plus(v.base, time_of(cost));
  v.turn = std::max(v.at, rounded_up(v.base));
  v.allowed = !later(v.next, plus({v.at}, tolerance_));
  return v;
}

decision meter::describe(const verdict& v, const state& after) const noexcept {
  const state at{v.at};
  const state& tat = later(after, at) ? after : at;

  // Room left, in units: (at + burst * T - TAT) / T, in parts of a microsecond to stay exact.
  const state full = plus(at, tolerance_);
  const wide room = static_cast<wide>(full.whole - tat.whole) * parts_ + (full.part - tat.part);

  decision d;
  d.allowed = v.allowed;
  d.limit = burst_;
  d.remaining = room > 0 ? floor_div(room, interval_) : 0;
  d.used = burst_ - d.remaining;
  d.reset_after = std::chrono::microseconds(rounded_up(tat) - v.at);
  if (!v.allowed) {
    // The first whole microsecond t with next <= t + tolerance.
    d.retry_after = std::chrono::microseconds(difference(v.next, tolerance_) - v.at);
  } else if (leaky_) {
    d.delay = std::chrono::microseconds(v.turn - v.at);
  }
  d.decided_at = to_time_point(v.at);
  return d;
}

decision meter::record_from(instant start, state& s, request_time now, units cost) const noexcept {
  state seen = seen_at(s, now.clock);
  verdict v = judge(seen, now, cost);
  const bool waits = rounded_up(v.base) < start;
  if (waits) {
    v.base = earliest(start);
    v.next = plus(v.base, time_of(cost));
    v.turn = start;
  }
  if (v.allowed) admit(seen, v, waits ? start : v.at);
  if (v.allowed || is_far_ahead(s, now.clock)) s = seen;
  decision d = describe(v, seen);
  if (v.allowed) d.receipt.buckets[0] = {seen.whole, seen.part, seen.returned};
  return d;
}

void meter::admit(state& s, const verdict& v, instant turn) const noexcept {
  s.whole = v.next.whole;
  s.part = v.next.part;
  s.ahead = reservations_ahead{v.latest_known_past, std::max(s.ahead.turn, turn)}.after(
      v.latest_known_past);
  if (s.returned > 0) s.until = std::max(s.until, rounded_up(s));
}

decision meter::fetch(const state& s, request_time now, units cost) const noexcept {
  const state seen = seen_at(s, now.clock);
  return describe(judge(seen, now, cost), seen);
}

std::string_view meter::script() noexcept { return lua::meter_lua; }

script_arguments meter::arguments(units cost) const noexcept {
  const state step = time_of(cost);
  return {tolerance_.whole, tolerance_.part, parts_, step.whole, step.part};
}

void meter::pack_common_constants(std::string& to, units cost) const {
  const state step = time_of(cost);
  if (parts_ > 1) {
    return pack_numbers(to, {tolerance_.whole, tolerance_.part, parts_, step.whole, step.part});
  }
  pack_numbers(to, {tolerance_.whole, step.whole});
  pack_text(to, step.whole);
}

bool meter::read_plain(std::string_view& text, std::span<std::int64_t> fields) const noexcept {
  const auto all = fields.first<reply_width>();
  std::fill(all.begin(), all.end(), 0);
  if (parts_ > 1) return take_parts(text, fields[0], fields[1]);
  constexpr std::size_t width = 16;
  if (text.size() < width) return false;
  const std::string_view own = text.substr(0, width);
  text.remove_prefix(own.size());
  fields[0] = sixteen_digits(own.data());
  // All zeros stand for no key.
  if (fields[0] == 0 || (own.front() != '0' && is_instant(fields[0]))) return true;
  // For a refused check, the script replies with any text that Lua takes for a number (up to a
  // NUL). Other text did not come from the script: the check may have been counted.
  fields[0] = foreign;
  constexpr std::string_view of_numbers = "0123456789+-.abcdefABCDEFxXpP \t\n\v\f\r";
  return own.substr(0, own.find('\0')).find_first_not_of(of_numbers) == own.npos;
}

std::array<std::int64_t, meter::reply_width> meter::fields(const state& s,
                                                           instant clock) const noexcept {
  const state seen = remembered(s, clock);
  return {seen.whole, seen.part, seen.ahead.written, seen.ahead.turn, seen.returned};
}

bool meter::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  // The script has dropped what was given back if no receipt can meet it.
  out = {fields[0], fields[1], {fields[2], fields[3]}, fields[4], fields[4] > 0 ? max_exact : 0};
  return is_instant(fields[0]) && is_count(fields[1]) && is_instant(fields[2]) &&
         is_instant(fields[3]) && is_count(fields[4]);
}

}  // namespace weir::policies
