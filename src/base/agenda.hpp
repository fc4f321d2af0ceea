#pragma once

#include <boost/intrusive/set.hpp>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Base of the entries of an agenda. An entry that is destroyed leaves its agenda.
struct agenda_entry
    : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  check::steady_time due = check::steady_time::max();  // max(): in no agenda

  bool operator<(const agenda_entry& other) const noexcept { return due < other.due; }
};

/// Entries by the time at which they are due; equal times in the order of put().
template <class Entry>
class agenda {
 public:
  using time = check::steady_time;

  /// Adds the entry or moves it; time::max() takes it out.
  void put(Entry& e, time due) {
    if (e.due == due) return;
    e.agenda_entry::unlink();
    e.due = due;
    if (due != time::max()) entries_.insert(e);
  }

  /// When the first entry is due; time::max(): there is none.
  time next() const noexcept { return entries_.empty() ? time::max() : entries_.begin()->due; }

  /// The first entry if it is due, else null. It stays first until put() moves it.
  Entry* first_due(time now) noexcept {
    return entries_.empty() || next() > now ? nullptr : static_cast<Entry*>(&*entries_.begin());
  }

 private:
  boost::intrusive::multiset<agenda_entry, boost::intrusive::constant_time_size<false>> entries_;
};

}  // namespace weir::detail
