#include "check/limiter_spec.hpp"

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <charconv>
#include <optional>

#include "base/hash.hpp"
#include "check/store_backend.hpp"
#include "policy/require_valid.hpp"
#include "policy/tier_set.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t max_name_size = 1024;

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

/// `what`: "resource" or "group".
std::string checked_name(const char* what, std::string_view name) {
  if (name.empty() || name.size() > max_name_size) {
    throw boost::system::system_error(make_error_code(error::invalid_resource),
                                      "the " + std::string(what) + " has " +
                                          std::to_string(name.size()) +
                                          " bytes; it must have 1 to 1024");
  }
  return std::string(name);
}

std::uint32_t checked_buckets(const limiter_options& options) {
  policies::require_valid(options.subject_buckets <= 16'384, "subject_buckets: at most 16384");
  policies::require_valid(
      options.subject_buckets == 0 || options.group.empty(),
      "subject_buckets: must be 0 with a group, whose keys all have one hash tag");
  return static_cast<std::uint32_t>(options.subject_buckets);
}

std::uint64_t hashed(std::uint64_t seed, const policies::kernel& kernel) {
  return std::visit(
      [&](const auto& k) {
        for (const std::int64_t value : k.arguments(1)) {
          seed = hash_with(seed, std::to_string(value));
        }
        // A token_bucket and a leaky_bucket may differ in nothing else.
        return policies::is_leaky(kernel) ? hash_with(seed, "spaced") : seed;
      },
      kernel);
}

/// The first tier has the same key as a limiter with that policy alone; further tiers get numbers.
std::string tail_of_tier(const policies::kernel& kernel, std::size_t tier) {
  std::string tail(":");
  tail += std::visit([](const auto& k) { return k.key_suffix; }, kernel);
  const bool has_number = policies::kind_of(kernel) != policies::kernel_kind::cool_down;
  if (tier > 0 && has_number) tail += std::to_string(tier);
  return tail;
}

}  // namespace

limiter_spec::limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
                           const weir::tiers& rules, const limiter_options& options)
    : limiter_spec(std::move(backend), name, policies::compile(rules), options) {}

limiter_spec::limiter_spec(std::shared_ptr<store_backend> backend, std::string_view name,
                           std::vector<policies::kernel> kernels, const limiter_options& options)
    : store(std::move(backend)),
      resource(checked_name("resource", name)),
      tiers(std::move(kernels)),
      ceiling(policies::ceiling_of(tiers)),
      nominal_limit(unlimited),
      counts_refused(std::any_of(tiers.begin(), tiers.end(), policies::counts_refused)),
      has_cool_down(options.cool_downs),
      answers_locally(options.deny_cache_subjects > 0 || options.local_units != 0),
      failure(options.on_failure),
      buckets(checked_buckets(options)),
      ends_in_tag_(options.group.empty()) {
  can_settle = !counts_refused && policies::kind_of(tiers.front()) != policies::kernel_kind::gate;
  if (has_cool_down) tiers.emplace_back(policies::cool_down());
  append_escaped(key_head_, store->key_prefix(), "{}%");
  key_head_ += ":{";
  tag_begin_ = key_head_.size();
  if (!options.group.empty()) {
    append_escaped(key_head_, checked_name("group", options.group), "{}%");
    key_head_ += "}:";
  }
  append_escaped(key_head_, name, "{}%:");
  key_head_ += ':';
  if (!store->has_hash_tags()) buckets = 0;
  if (buckets > 0) {
    // No other key has a slash behind its hash tag.
    bucket_end_ = '/' + std::to_string(buckets) + "}/";
    ends_in_tag_ = false;
  }
  origin_ = resource_id = hash_with(0xcbf29ce484222325u, key_head_ + bucket_end_);
  for (const policies::kernel& kernel : tiers) {
    nominal_limit = std::min(nominal_limit,
                             std::visit([](const auto& k) { return k.limit(); }, kernel));
    const std::string tail = tail_of_tier(kernel, key_tails_.size());
    key_tails_.push_back(ends_in_tag_ ? '}' + tail : tail);
    origin_ = hashed(hash_with(origin_, key_tails_.back()), kernel);
  }
}

std::uint32_t limiter_spec::bucket_of(std::string_view subject) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : subject) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::uint32_t>(hash % buckets);
}

void limiter_spec::append_bucket(std::string& out, std::string_view subject) const {
  char digits[8];
  out.append(digits, std::to_chars(digits, std::end(digits), bucket_of(subject)).ptr);
  out += bucket_end_;
}

void limiter_spec::append_subject(std::string& out, std::string_view subject) const {
  if (buckets > 0) append_bucket(out, subject);
  if (stands_in_keys(subject)) {
    out += subject;
  } else {
    append_escaped(out, subject, "{}%");
  }
}

void limiter_spec::append_key(std::string& out, std::string_view subject, std::size_t tier) const {
  const std::string& tail = key_tails_[tier];
  if (buckets == 0 && stands_in_keys(subject)) {
    // The whole key at once: each call that lengthens a string takes some 50 instructions.
    const std::size_t before = out.size();
    out.resize(before + key_head_.size() + subject.size() + tail.size());
    char* to = std::copy(key_head_.begin(), key_head_.end(), out.data() + before);
    to = std::copy(subject.begin(), subject.end(), to);
    std::copy(tail.begin(), tail.end(), to);
    return;
  }
  out += key_head_;
  append_subject(out, subject);
  out += tail;
}

std::string_view limiter_spec::tag_of(std::string_view key, std::size_t tier) const noexcept {
  if (!ends_in_tag_) return hash_tag(key);
  return key.substr(tag_begin_, key.size() - key_tails_[tier].size() - tag_begin_);
}

void limiter_spec::append_marker(std::string& out, std::string_view subject,
                                 std::uint64_t id) const {
  append_subject_key(out, subject);
  out += ":s";
  constexpr char digits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += digits[id >> shift & 15];
}

void limiter_spec::append_subject_key(std::string& out, std::string_view subject) const {
  out += key_head_;
  append_subject(out, subject);
  if (ends_in_tag_) out += '}';
}

std::string_view limiter_spec::tier_name(std::size_t tier) const noexcept {
  const std::string_view tail = key_tails_[tier];
  return tail.substr(tail.rfind(':') + 1);
}

policies::kernel kernel_for(const check& c, const policies::kernel& own) {
  using policies::lease_set;
  // `own` only reads the cool-down.
  if (cools_down(c)) {
    return policies::cool_down(c.units, as<cool_down_request>(c).longest_guess);
  }
  const auto* const gate = std::get_if<lease_set>(&own);
  if (gate == nullptr || c.kind != check_kind::lease) return own;
  const lease_act act = as<lease_request>(c).act;
  return gate->with(act == lease_act::renew   ? lease_set::act::renew
                    : act == lease_act::leave ? lease_set::act::leave
                                              : lease_set::act::enter);
}

std::int64_t units_of(const check& c, std::size_t tier) {
  if (!lowers(c)) return c.units;
  const limiter_spec& limiter = *c.limiter;
  const std::int64_t said = as<settle_request>(c).vendor_limit;
  const auto limit_of = [](const policies::kernel& kernel) {
    return std::visit([](const auto& k) { return k.limit(); }, kernel);
  };
  const std::int64_t own = limit_of(limiter.tiers[tier]);
  const bool is_named = std::ranges::find(limiter.tiers, said, limit_of) != limiter.tiers.end();
  // A tier with a larger limit may be that of a longer window, of which the vendor said nothing.
  const bool concerns = said == 0 || (is_named ? own == said : own < said);
  return concerns ? c.units : max_units;
}

bool has_failure_policy(const check& c) noexcept {
  bool has = c.traits.may_fail_over;
  for_each_limiter(c, [&has](const limiter_spec& limiter, std::string_view) {
    has = has && limiter.failure != on_failure::raise;
  });
  return has;
}

std::uint64_t origin_of_joint(const check& c) noexcept {
  std::optional<std::uint64_t> origin;
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view subject) {
    if (c.kind == check_kind::lease && !limiter.can_settle) return;  // the gate
    const std::uint64_t next = limiter.origin_of(subject_hash(subject));
    char bytes[sizeof next];
    for (char& byte : bytes) byte = static_cast<char>(next >> 8 * (&byte - bytes));
    origin = origin ? hash_with(*origin, {bytes, sizeof bytes}) : next;
  });
  return *origin;
}

policies::tickets tickets_of(const check& c) {
  if (!settles(c)) return {};
  const settle_request& asked = as<settle_request>(c);
  const further_receipt* const further = c.further_taken();
  return policies::tickets_of({asked.about, further == nullptr ? further_receipt{} : *further},
                              asked.found);
}

std::string_view hash_tag(std::string_view key) noexcept {
  const std::size_t begin = key.find('{') + 1;
  return key.substr(begin, key.find('}', begin) - begin);
}

}  // namespace weir::detail
