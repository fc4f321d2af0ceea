#include "limiter/failure_policy.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "check/clock.hpp"
#include "limiter/limiter_impl.hpp"

namespace weir::detail {
namespace {

/// retry_after of a refusal without the store: by then it may work again.
constexpr std::chrono::seconds unknown_pause{1};

constexpr auto the_clock = [] { return read_clock({}); };

decision without_store(bool allowed) {
  decision d;
  d.allowed = allowed;
  d.source = source::fallback;
  d.decided_at = policies::to_time_point(the_clock());
  if (!allowed) d.retry_after = unknown_pause;
  return d;
}

std::int64_t part_of(std::int64_t limit, std::int64_t clients) {
  return limit == unlimited ? unlimited : std::max<std::int64_t>(1, limit / clients);
}

/// count / (period * clients): multiplies the period, or divides the count, to stay in range.
rate part_of(rate r, std::int64_t clients) {
  constexpr std::int64_t longest = std::int64_t{1} << 50;
  if (r.count % clients == 0) return {r.count / clients, r.period};
  if (r.period.count() <= longest / clients) return {r.count, r.period * clients};
  return {std::max<std::int64_t>(1, r.count / clients), r.period};
}

struct sharer {
  std::int64_t clients;

  template <class Window>
  weir::policy operator()(Window p) const {
    p.limit = part_of(p.limit, clients);
    return p;
  }
  weir::policy operator()(weir::token_bucket p) const {
    p.capacity = part_of(p.capacity, clients);
    p.refill = part_of(p.refill, clients);
    return p;
  }
  weir::policy operator()(weir::gcra p) const {
    p.burst = part_of(p.burst, clients);
    p.rate = part_of(p.rate, clients);
    return p;
  }
  weir::policy operator()(weir::leaky_bucket p) const {
    p.capacity = part_of(p.capacity, clients);
    p.leak = part_of(p.leak, clients);
    return p;
  }
};

/// The name under which a subject is counted: a long subject gets a digest, so that memory is
/// bounded in bytes too.
class counted_as {
 public:
  explicit counted_as(std::string_view subject) : key_(subject) {
    if (subject.size() <= longest) return;
    // 32 bytes of digest and the beginning of the subject: longer than any subject counted under
    // its own name, so the two never collide.
    auto* const digest = reinterpret_cast<unsigned char*>(text_.data());
    if (EVP_Digest(subject.data(), subject.size(), digest, nullptr, EVP_sha256(), nullptr) != 1) {
      throw std::bad_alloc();
    }
    subject.copy(text_.data() + digest_size, text_.size() - digest_size);
    key_ = {text_.data(), text_.size()};
  }
  counted_as(const counted_as&) = delete;
  counted_as& operator=(const counted_as&) = delete;

  operator std::string_view() const noexcept { return key_; }

 private:
  static constexpr std::size_t longest = 64;
  static constexpr std::size_t digest_size = 32;

  std::array<char, longest + 1> text_;
  std::string_view key_;
};

}  // namespace

/// Each tier of a subject is a state of its own.
std::size_t states_of(std::size_t subjects, std::size_t tiers) noexcept {
  return std::min(subjects, std::numeric_limits<std::size_t>::max() / tiers) * tiers;
}

weir::policy share_of(const weir::policy& policy, std::int64_t clients) {
  return std::visit(sharer{std::max<std::int64_t>(1, clients)}, policy);
}

local_fallback::local_fallback(const weir::tiers& tiers, const limiter_options& options)
    : ceiling_(max_units), subjects_(states_of(options.max_fallback_subjects, tiers.size())) {
  for (const weir::policy& policy : tiers) {
    tiers_.push_back(policies::compile(share_of(policy, options.process_count)));
    ceiling_ = std::min(ceiling_,
                        std::visit([](const auto& k) { return k.ceiling(); }, tiers_.back()));
  }
}

std::vector<memory::shard::place> local_fallback::places_of(std::string_view subject,
                                                            std::int64_t cost) const {
  std::vector<memory::shard::place> places;
  const counted_as as(subject);
  for (const policies::kernel& kernel : tiers_) {
    // One byte in front tells the tiers apart. A single tier has none, because record() and fetch()
    // use the bare subject then.
    std::string key(tiers_.size() > 1 ? 1 : 0, static_cast<char>(places.size()));
    places.push_back({&kernel, key.append(as), cost});
  }
  return places;
}

decision local_fallback::record(std::string_view subject, std::int64_t cost) {
  // The cost fits the whole limit, but perhaps not this process's share of it.
  if (cost > ceiling_) return without_store(false);
  decision d;
  const error_code ec = tiers_.size() == 1
                            ? subjects_.record(tiers_.front(), counted_as(subject), the_clock, cost,
                                               d)
                            : subjects_.record_all(places_of(subject, cost), the_clock, d);
  if (ec) return without_store(false);
  d.source = source::fallback;
  return d;
}

decision local_fallback::fetch(std::string_view subject, std::int64_t cost) {
  if (cost > ceiling_) return without_store(false);
  decision d = tiers_.size() == 1
                   ? subjects_.fetch(tiers_.front(), counted_as(subject), the_clock, cost)
                   : subjects_.fetch_all(places_of(subject, cost), the_clock);
  d.source = source::fallback;
  return d;
}

decision local_fallback::acquire(std::string_view subject, std::int64_t cost,
                                 std::chrono::microseconds max_wait) {
  if (cost > ceiling_) return without_store(false);
  decision d;
  if (subjects_.book_all(places_of(subject, cost), the_clock, max_wait.count(), d)) {
    return without_store(false);
  }
  d.source = source::fallback;
  return d;
}

namespace {

/// The order from strict to lenient: raise, closed, fallback, open.
int strictness(on_failure f) {
  switch (f) {
    case on_failure::raise:
      return 3;
    case on_failure::closed:
      return 2;
    case on_failure::fallback:
      return 1;
    case on_failure::open:
      break;
  }
  return 0;
}

/// Answers a joint check from the fallback of each limiter that has one. Unlike in a store this is
/// not atomic: a call in between may make a later limiter refuse what earlier ones have counted.
/// The decision is then refused; it is never allowed without all of them having counted.
decision from_local_shares(const check& c) {
  std::vector<decision> each;
  std::vector<std::int16_t> places;  // the number of each limiter's first tier
  const auto ask = [&](auto&& how) {
    std::size_t i = 0;
    const auto one = [&](const limiter_spec& limiter, std::string_view subject, std::int64_t cost) {
      const auto& fallback = impl_of(limiter).fallback;
      if (fallback != nullptr) each[i] = how(*fallback, subject, cost, each[i]);
      ++i;
    };
    one(*c.limiter, c.subject.view(), number_for_kernel(c));
    for (const term& t : c.further()) one(*t.limiter, t.subject.view(), t.cost);
  };
  std::int16_t place = 0;
  const auto add = [&](const limiter_spec& limiter) {
    each.push_back(without_store(true));  // stays if the limiter has no fallback (open)
    each.back().remaining = each.back().limit = unlimited;
    places.push_back(place);
    // The cool-down tier has no number in a decision, and the fallback has none.
    place = static_cast<std::int16_t>(place + limiter.tiers.size() -
                                      (limiter.has_cool_down ? 1 : 0));
  };
  add(*c.limiter);
  for (const term& t : c.further()) add(*t.limiter);

  ask([&](local_fallback& local, std::string_view subject, std::int64_t cost, const decision&) {
    return local.fetch(subject, cost);
  });
  if (c.kind != check_kind::fetch) {
    const bool allowed = std::all_of(each.begin(), each.end(),
                                     [](const decision& d) { return d.allowed; });
    ask([&](local_fallback& local, std::string_view subject, std::int64_t cost,
            const decision& look) {
      if (!allowed) {
        // A limiter that refuses still records the refusal, but must count nothing even if the
        // request would fit by now: hence a reservation before now. See policies::reserve_at.
        if (!look.allowed) local.acquire(subject, cost, std::chrono::microseconds{-1});
        return look;
      }
      return local.record(subject, cost);
    });
  }
  decision d = policies::combined(each);
  if (!d.allowed) {
    const auto by = static_cast<std::size_t>(d.tier);
    d.tier = static_cast<std::int16_t>(places[by] + std::max<std::int16_t>(0, each[by].tier));
  }
  return d;
}

decision from_local_share(const check& c) {
  local_fallback& local = *impl_of(*c.limiter).fallback;
  switch (c.kind) {
    case check_kind::record:
      return local.record(c.subject.view(), as<record_request>(c).cost);
    case check_kind::acquire:
      return local.acquire(c.subject.view(), as<acquire_request>(c).cost,
                           as<acquire_request>(c).max_wait);
    default:
      return local.fetch(c.subject.view(), as<fetch_request>(c).cost);
  }
}

}  // namespace

on_failure failure_policy_of(const check& c) {
  on_failure strictest = c.limiter->failure;
  for (const term& t : c.further()) {
    if (strictness(t.limiter->failure) > strictness(strictest)) strictest = t.limiter->failure;
  }
  return strictest;
}

void apply_failure_policy(check& c) {
  const bool decides = c.kind == check_kind::record || c.kind == check_kind::fetch ||
                       c.kind == check_kind::acquire;
  if (!c.ec || !decides || !is_store_failure(c.ec)) return;
  const on_failure policy = failure_policy_of(c);
  if (policy == on_failure::raise) return;
  c.ec = {};
  if (policy == on_failure::fallback) {
    c.answer = c.further().empty() ? from_local_share(c) : from_local_shares(c);
  } else {
    c.answer = without_store(policy == on_failure::open);
    c.answer.limit = c.limiter->nominal_limit;
  }
}

}  // namespace weir::detail
