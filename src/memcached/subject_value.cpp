#include "memcached/subject_value.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>

#include "policy/stored_state.hpp"

namespace weir::memcached {
namespace {

using policies::instant;

// The name of the section with the ids of settled decisions. No kernel has this suffix.
constexpr std::string_view settled_name = "s";
constexpr std::size_t longest_name = 8;
// Far more than all kinds of states with all numbers of tiers.
constexpr std::size_t most_sections = 256;
// A buffer of more bytes is not kept for the next value.
constexpr std::size_t most_kept = 1024 * 1024;
// First bytes from here on are another program's text, not a later version.
constexpr unsigned char first_foreign = 32;

/// Seven bits to a byte, the lowest first; the top bit says that more follow.
void append_unsigned(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

/// 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
void append_signed(std::string& out, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  append_unsigned(out, bits << 1 ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

bool take_unsigned(std::string_view& in, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_signed(std::string_view& in, std::int64_t& value) {
  std::uint64_t bits = 0;
  if (!take_unsigned(in, bits)) return false;
  value = static_cast<std::int64_t>(bits >> 1 ^ ((bits & 1) != 0 ? ~std::uint64_t{0} : 0));
  return true;
}

bool take_instant(std::string_view& in, instant& value) {
  std::uint64_t bits = 0;
  if (!take_unsigned(in, bits) || bits > static_cast<std::uint64_t>(policies::max_exact)) {
    return false;
  }
  value = static_cast<instant>(bits);
  return true;
}

bool take_bytes(std::string_view& in, std::string_view& out) {
  std::uint64_t size = 0;
  if (!take_unsigned(in, size) || size > in.size()) return false;
  out = in.substr(0, static_cast<std::size_t>(size));
  in.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

void append_bytes(std::string& out, std::string_view bytes) {
  append_unsigned(out, bytes.size());
  out += bytes;
}

bool is_over(instant ends, instant now) { return ends + policies::grace <= now; }

}  // namespace

error subject_value::decode(std::string_view bytes, instant now) {
  sections_.clear();
  ids_.clear();
  is_changed_ = false;
  if (scratch_.capacity() > most_kept) std::string().swap(scratch_);
  if (numbers_.capacity() > most_kept / 8) std::vector<std::int64_t>().swap(numbers_);
  if (bytes.empty()) return {};
  const auto first = static_cast<unsigned char>(bytes.front());
  if (first > version && first < first_foreign) return error::newer_state;
  return first == version && decode_sections(bytes.substr(1), now) ? error{} : error::wrong_type;
}

bool subject_value::decode_sections(std::string_view bytes, instant now) {
  while (!bytes.empty()) {
    std::string_view name, stored;
    instant ends = 0;
    if (!take_bytes(bytes, name) || name.empty() || name.size() > longest_name ||
        !take_instant(bytes, ends) || !take_bytes(bytes, stored) ||
        sections_.size() == most_sections || section_of(name) != nullptr) {
      return false;
    }
    if (name == settled_name) {
      if (!ids_.empty() || !decode_ids(stored, now)) return false;
      continue;
    }
    section& s = sections_.emplace_back();
    s.name = name;
    s.ends = ends;
    s.stored = stored;
  }
  return true;
}

bool subject_value::decode_ids(std::string_view bytes, instant now) {
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(std::uint64_t)) return false;
    settled_id one{
        boost::endian::load_little_u64(reinterpret_cast<const unsigned char*>(bytes.data())), 0};
    bytes.remove_prefix(sizeof(std::uint64_t));
    if (!take_instant(bytes, one.until)) return false;
    if (one.until > now) ids_.push_back(one);
  }
  // Values of an earlier version are not sorted.
  if (!std::ranges::is_sorted(ids_, {}, &settled_id::id)) {
    std::ranges::sort(ids_, {}, &settled_id::id);
  }
  return true;
}

subject_value::section* subject_value::section_of(std::string_view name) noexcept {
  for (section& s : sections_) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

subject_value::tier_value* subject_value::find(std::string_view tier,
                                               const policies::kernel& kernel) {
  section* s = section_of(tier);
  if (s == nullptr) {
    s = &sections_.emplace_back();
    s->name = tier;
    std::visit([&](const auto& k) { policies::state_for(k, s->state); }, kernel);
    s->is_held = true;
    s->stored = bytes_of(*s);
  }
  if (s->is_held) return s;
  numbers_.clear();
  for (std::string_view in = s->stored; !in.empty();) {
    if (!take_signed(in, numbers_.emplace_back())) return nullptr;
  }
  if (!policies::read_numbers(kernel, numbers_, s->state)) return nullptr;
  s->is_held = true;
  return s;
}

void subject_value::forget(std::string_view tier) {
  is_changed_ = sections_.remove_if([&](const section& s) { return s.name == tier; }) > 0 ||
                is_changed_;
}

bool subject_value::is_settled(std::uint64_t id, instant now) const noexcept {
  const auto at = std::ranges::lower_bound(ids_, id, {}, &settled_id::id);
  return at != ids_.end() && at->id == id && at->until > now;
}

void subject_value::set_settled(std::uint64_t id, instant until) {
  auto at = std::ranges::lower_bound(ids_, id, {}, &settled_id::id);
  if (at == ids_.end() || at->id != id) at = ids_.insert(at, {id, until});
  at->until = until;
  is_changed_ = true;
}

/// The state of a section in bytes; valid until the next call.
std::string_view subject_value::bytes_of(const section& s) {
  if (!s.is_held) return s.stored;
  numbers_.clear();
  policies::append_numbers(s.state, numbers_);
  scratch_.clear();
  for (const std::int64_t n : numbers_) append_signed(scratch_, n);
  return scratch_;
}

bool subject_value::is_changed() {
  return is_changed_ || std::any_of(sections_.begin(), sections_.end(), [this](const section& s) {
           return s.is_held && bytes_of(s) != s.stored;
         });
}

instant subject_value::encode(instant now, std::string& out) {
  out.assign(1, static_cast<char>(version));
  instant last = 0;
  for (const section& s : sections_) {
    if (is_over(s.ends, now)) continue;
    append_bytes(out, s.name);
    append_unsigned(out, static_cast<std::uint64_t>(s.ends));
    append_bytes(out, bytes_of(s));
    last = std::max(last, s.ends);
  }
  std::string ids;
  instant last_id = 0;
  for (const settled_id& s : ids_) {
    if (s.until <= now) continue;
    char bytes[sizeof s.id];
    boost::endian::store_little_u64(reinterpret_cast<unsigned char*>(bytes), s.id);
    ids.append(bytes, sizeof bytes);
    append_unsigned(ids, static_cast<std::uint64_t>(s.until));
    last_id = std::max(last_id, s.until);
  }
  if (!ids.empty()) {
    append_bytes(out, settled_name);
    append_unsigned(out, static_cast<std::uint64_t>(last_id));
    append_bytes(out, ids);
  }
  if (out.size() == 1) out.clear();
  return std::max(last, last_id);
}

}  // namespace weir::memcached
