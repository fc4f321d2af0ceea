#include "limiter/limiter_tally.hpp"

#include <boost/asio/error.hpp>
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
  calls_.add(c);
  for (const term& t : c.further()) {
    impl_of(*t.limiter).tally->calls_.add(c);
    book_.counted_again(c);
  }
  if (d.allowed && !c.ec && (went_at_once || !c.traits.waits)) return;
  if (refused_ != nullptr && !d.allowed && !c.ec && c.traits.signs) {
    refused_->add(c.subject.view());
  }
  const std::lock_guard lock(mutex_);
  if (c.ec) {
    gave_up_ += c.traits.waits && c.ec == boost::asio::error::operation_aborted ? 1 : 0;
  } else if (c.traits.signs && d.cooling_down) {
    ++refused_by_cool_down_;
  } else if (c.traits.signs && !d.allowed && c.further().empty()) {
    const auto tier = static_cast<std::size_t>(d.tier);
    if (d.tier >= 0 && tier < refused_by_tier_.size()) ++refused_by_tier_[tier];
  } else if (d.allowed) {
    try {
      if (waited_ == nullptr) waited_ = std::make_unique<duration_histogram>();
      waited_->add(d.delay);
    } catch (const std::bad_alloc&) {  // this one is missing in the histogram
    }
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
