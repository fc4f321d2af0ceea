#include "check/limiter_spec.hpp"

#include <algorithm>
#include <boost/system/system_error.hpp>

#include "policy/tier_set.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t max_resource_size = 1024;

void append_escaped(std::string& out, std::string_view text, std::string_view special) {
  for (;;) {
    const std::size_t at = text.find_first_of(special);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return;
    constexpr char digits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(text[at]);
    out += '%';
    out += digits[byte >> 4];
    out += digits[byte & 15];
    text.remove_prefix(at + 1);
  }
}

std::string checked_resource(std::string_view name) {
  if (name.empty() || name.size() > max_resource_size) {
    throw boost::system::system_error(
        make_error_code(error::invalid_resource),
        "the name has " + std::to_string(name.size()) + " bytes; it must have 1 to 1024");
  }
  return std::string(name);
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits. Unlike std::hash, it is the same in every process.
std::uint64_t hashed(std::uint64_t seed, std::string_view text) noexcept {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

std::uint64_t hashed(std::uint64_t seed, const policies::kernel& kernel) {
  return std::visit(
      [&](const auto& k) {
        const policies::script_arguments constants = k.arguments(1);
        for (const std::int64_t value : constants.values()) {
          seed = hashed(seed, std::to_string(value) + ',');
        }
        return seed;
      },
      kernel);
}

/// The first tier has the same key as a limiter with that policy alone; further tiers get numbers.
std::string key_tail(const policies::kernel& kernel, std::size_t tier) {
  std::string tail(":");
  tail += std::visit([](const auto& k) { return k.key_suffix; }, kernel);
  if (tier > 0 && policies::has_number(kernel)) tail += std::to_string(tier);
  return tail;
}

}  // namespace

limiter_spec::limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
                           const weir::tiers& rules, const limiter_options& options)
    : limiter_spec(std::move(backend), name, policies::compile(rules), options) {}

limiter_spec::limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
                           std::vector<policies::kernel> kernels, const limiter_options& options)
    : store(std::move(backend)),
      resource(checked_resource(name)),
      tiers(std::move(kernels)),
      ceiling(max_units),
      nominal_limit(unlimited),
      counts_refused(std::any_of(tiers.begin(), tiers.end(), policies::counts_refused)),
      has_cool_down(options.cool_downs),
      failure(options.on_failure),
      shares_keys(!options.group.empty()) {
  can_book = !counts_refused && std::all_of(tiers.begin(), tiers.end(), policies::can_book);
  can_settle = !counts_refused && std::all_of(tiers.begin(), tiers.end(), policies::can_settle);
  if (has_cool_down) tiers.emplace_back(policies::cool_down());
  append_escaped(key_head_, store->key_prefix(), "{}%");
  key_head_ += ":{";
  if (!options.group.empty()) {
    append_escaped(key_head_, checked_resource(options.group), "{}%");
    key_head_ += "}:";
  }
  append_escaped(key_head_, name, "{}%:");
  key_head_ += ':';
  origin_ = resource_id = hashed(0xcbf29ce484222325u, key_head_);
  for (const policies::kernel& kernel : tiers) {
    ceiling = std::min(ceiling, std::visit([](const auto& k) { return k.ceiling(); }, kernel));
    nominal_limit = std::min(nominal_limit,
                             std::visit([](const auto& k) { return k.limit(); }, kernel));
    key_tails_.push_back(key_tail(kernel, key_tails_.size()));
    if (options.group.empty()) key_tails_.back().insert(0, "}");
    origin_ = hashed(hashed(origin_, key_tails_.back()), kernel);
  }
}

void limiter_spec::append_key(std::string& out, std::string_view subject, std::size_t tier) const {
  out += key_head_;
  append_escaped(out, subject, "{}%");
  out += key_tails_[tier];
}

void limiter_spec::append_marker(std::string& out, std::string_view subject,
                                 std::uint64_t id) const {
  out += key_head_;
  append_escaped(out, subject, "{}%");
  out += shares_keys ? ":s" : "}:s";
  constexpr char digits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += digits[id >> shift & 15];
}

std::uint64_t limiter_spec::origin_of(std::string_view subject) const noexcept {
  return hashed(origin_, subject);
}

std::int64_t left_in(const check& c, std::size_t tier) {
  const std::int64_t said = c.answer.limit;
  const auto has_it = [&](const policies::kernel& kernel) {
    return std::visit([&](const auto& k) { return said > 0 && k.limit() == said; }, kernel);
  };
  const auto& tiers = c.limiter->tiers;
  const bool concerns = has_it(tiers[tier]) || std::none_of(tiers.begin(), tiers.end(), has_it);
  return concerns ? c.cost : max_units;
}

std::uint64_t origin_of(const check& c) noexcept {
  std::uint64_t origin = c.limiter->origin_of(c.subject.view());
  for (const term& t : c.further) {
    const std::uint64_t next = t.limiter->origin_of(t.subject.view());
    char bytes[sizeof next];
    for (char& byte : bytes) byte = static_cast<char>(next >> 8 * (&byte - bytes));
    origin = hashed(origin, {bytes, sizeof bytes});
  }
  return origin;
}

policies::tickets tickets_of(const check& c) { return policies::tickets_of(c.answer, c.found); }

std::string_view hash_tag(std::string_view key) noexcept {
  const std::size_t begin = key.find('{') + 1;
  return key.substr(begin, key.find('}', begin) - begin);
}

}  // namespace weir::detail
