#include "limiter/limiter_tally.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <iterator>
#include <mutex>
#include <new>

#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"

namespace weir::detail {

limiter_tally::limiter_tally(tally_book& book, std::size_t tiers, std::size_t most_refused)
    : book_(book),
      refused_(most_refused == 0 ? nullptr : std::make_unique<refused_table>(most_refused)),
      refused_by_tier_(tiers > 1 ? tiers : 0) {
  book_.enter(calls_);
}

limiter_tally::~limiter_tally() { book_.leave(calls_); }

void limiter_tally::ended(const check& c) noexcept {
  const decision& d = c.answer;
  const bool went_at_once = d.allowed && d.delay.count() == 0;
  if (went_at_once && c.traits.signs && !c.ec && c.further().empty() && d.source == source::store) {
    return calls_.add_allowed(1);
  }
  add(c);
  for (std::size_t i = 0; i < c.further().size(); ++i) {
    const limiter_spec& other = *c.further()[i].limiter;
    const auto before = c.further().first(i);
    const auto is_other = [&](const term& t) { return t.limiter.get() == &other; };
    if (&other == c.limiter.get() || std::ranges::any_of(before, is_other)) continue;
    impl_of(other).tally->add(c);
    if (other.store == c.limiter->store) book_.counted_again(c);
  }
  if (!d.allowed && !c.ec && c.traits.signs) note_refusal(c);
}

/// Counts a call at this limiter, which may be one of several.
void limiter_tally::add(const check& c) noexcept {
  calls_.add(c);
  if (!c.traits.waits) return;
  const std::lock_guard lock(mutex_);
  gave_up_ += c.ec == boost::asio::error::operation_aborted ? 1 : 0;
  if (c.ec || !c.answer.allowed || c.answer.delay.count() == 0) return;
  try {
    if (waited_ == nullptr) waited_ = std::make_unique<duration_histogram>();
    waited_->add(c.answer.delay);
  } catch (const std::bad_alloc&) {  // this one is missing in the histogram
  }
}

/// Counts a refusal at the limiter that refused, or at the first one if the decision names none.
void limiter_tally::note_refusal(const check& c) noexcept {
  const limiter_spec* refuser = c.limiter.get();
  std::string_view subject = c.subject.view();
  std::ptrdiff_t tier = c.answer.tier;  // among the policies of all limiters
  for (const term& t : c.further()) {
    const std::ptrdiff_t policies = std::ssize(refuser->tiers) - (refuser->has_cool_down ? 1 : 0);
    if (tier < policies) break;
    tier -= policies;
    refuser = t.limiter.get();
    subject = t.subject.view();
  }
  impl_of(*refuser).tally->refused(subject, tier, c.answer.cooling_down);
}

void limiter_tally::refused(std::string_view subject, std::ptrdiff_t tier,
                            bool by_cool_down) noexcept {
  if (refused_ != nullptr) refused_->add(subject);
  const std::lock_guard lock(mutex_);
  if (by_cool_down) {
    ++refused_by_cool_down_;
  } else if (tier >= 0 && tier < std::ssize(refused_by_tier_)) {
    ++refused_by_tier_[static_cast<std::size_t>(tier)];
  }
}

void limiter_tally::cool_down_begun(bool is_own) noexcept {
  const std::lock_guard lock(mutex_);
  ++(is_own ? begun_ : joined_);
}

void limiter_tally::cool_down_clamped() noexcept {
  const std::lock_guard lock(mutex_);
  ++clamped_;
}

void limiter_tally::lease_lost() noexcept {
  const std::lock_guard lock(mutex_);
  ++lost_;
}

void limiter_tally::read(limiter_stats& into) const {
  into.calls = calls_.read().counts();
  if (refused_ != nullptr) into.most_refused = refused_->read();
  const std::lock_guard lock(mutex_);
  into.refused_by_tier = refused_by_tier_;
  into.refused_by_cool_down = refused_by_cool_down_;
  into.gave_up = gave_up_;
  into.cool_downs_begun = begun_;
  into.cool_downs_joined = joined_;
  into.cool_downs_clamped = clamped_;
  into.leases_lost = lost_;
  if (waited_ != nullptr) into.waited = *waited_;
}

void note_end(const check& c) noexcept {
  if (!c.traits.watches) impl_of(*c.limiter).tally->ended(c);
}

}  // namespace weir::detail
