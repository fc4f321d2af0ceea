#include "policy/stored_state.hpp"

#include <algorithm>

namespace weir::policies {
namespace {

using numbers = std::vector<std::int64_t>;
using row = std::span<const std::int64_t>;

constexpr std::size_t lease_width = 4;

void write(std::monostate, numbers&) {}
void write(const meter::state& s, numbers& out) {
  out.insert(out.end(), {s.whole, s.part, s.ahead.written, s.ahead.turn, s.returned, s.until});
}
void write(const fixed_window::state& s, numbers& out) {
  out.insert(out.end(), {s.start, s.count, s.written, s.start_before, s.count_before});
}
void write(const sliding_window::state& s, numbers& out) {
  out.insert(out.end(), {s.start, s.current, s.previous, s.written, s.at_last});
}
void write(const sliding_log::state& s, numbers& out) { s.write(out); }
void write(const cool_down::state& s, numbers& out) {
  out.insert(out.end(), {s.until, s.marked_length});
}
void write(const lease_set::state& s, numbers& out) {
  for (const lease_set::lease& l : s.leases) {
    out.insert(out.end(), {l.base, l.number, l.length, l.until});
  }
}

/// True if there are as many as wanted, and each can be a time or a count.
bool are_counts(row in, std::size_t wanted) {
  return in.size() == wanted && std::all_of(in.begin(), in.end(), is_count);
}

bool read(row in, meter::state& s) {
  if (!are_counts(in, 6)) return false;
  s = {in[0], in[1], {in[2], in[3]}, in[4], in[5]};
  return true;
}
bool read(row in, fixed_window::state& s) {
  if (!are_counts(in, 5)) return false;
  s = {in[0], in[1], in[2], in[3], in[4]};
  return true;
}
bool read(row in, sliding_window::state& s) {
  if (!are_counts(in, 5)) return false;
  s = {in[0], in[1], in[2], in[3], in[4]};
  return true;
}
bool read(row in, sliding_log::state& s) { return s.read(in); }
bool read(row in, cool_down::state& s) {
  if (!are_counts(in, 2)) return false;
  s = {in[0], in[1]};
  return true;
}
bool read(row in, lease_set::state& s) {
  s.leases.clear();
  if (in.size() % lease_width != 0) return false;
  for (; !in.empty(); in = in.subspan(lease_width)) {
    // Base and number are a name: any number will do.
    if (in[2] < 0 || in[2] > lease_set::longest || !is_instant(in[3])) return false;
    s.leases.push_back({in[0], in[1], in[2], in[3]});
  }
  return true;
}

}  // namespace

void append_numbers(const any_state& state, std::vector<std::int64_t>& out) {
  std::visit([&](const auto& s) { write(s, out); }, state);
}

bool read_numbers(const kernel& of, std::span<const std::int64_t> numbers, any_state& out) {
  return std::visit(
      [&]<class Kernel>(const Kernel&) {
        return read(numbers, out.template emplace<typename Kernel::state>());
      },
      of);
}

}  // namespace weir::policies
