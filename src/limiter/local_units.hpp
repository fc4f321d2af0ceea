#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/agenda.hpp"
#include "base/alarm.hpp"
#include "base/hash.hpp"
#include "limiter/unit_supply.hpp"

namespace weir::detail {

/// The local units of one limiter: a unit_supply for each subject that is in use, one timer on the
/// store's executor, and a mutex, because callers come from any thread. The mutex is not held while
/// a store is called.
///
/// The limiter owns it. The timer and each take keep the limiter alive. Without memory for its
/// work, it answers nothing, and checks go to the store.
class local_units final {
 public:
  using time = unit_supply::time;
  using core_ptr = std::shared_ptr<const limiter_spec>;

  /// Longer subjects have no local units, because the table holds their names.
  static constexpr std::size_t longest_subject = 256;

  local_units(const supply_rules& rules, std::size_t max_subjects) noexcept
      : rules_(rules), max_subjects_(max_subjects) {}

  struct outcome {
    bool is_answered = false;  // the check has its answer
    check* take = nullptr;     // to be started in the store, after the check if that goes there
  };
  /// Answers a validated record if there are units for it.
  outcome spend(check& c);

  /// The store has answered a record of this limiter.
  void note_reply(std::string_view subject, const decision& answer);

  /// Called after a reset: the store has forgotten the subject's units, so they are not given back.
  void forget(std::string_view subject);

  /// Called when the store closes: gives all units back.
  void close(const core_ptr& core);
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

  /// The number of subjects that it knows.
  std::size_t subjects() const;

 private:
  class take;

  struct entry : agenda_entry {
    entry(const short_text& name, const supply_rules& rules) : subject(name), supply(rules) {}

    const short_text subject;
    unit_supply supply;
  };
  /// Units to give back.
  struct returned {
    short_text subject;
    unit_supply::rest rest;
  };

  entry* entry_of(const check& c, time now);
  time next_look(time now) const noexcept;
  void answered(const take& t);
  void on_timer(const core_ptr& core);
  void arm(const core_ptr& core);
  void give_back(const core_ptr& core, const std::vector<returned>& all);

  const supply_rules rules_;
  const std::size_t max_subjects_;

  mutable std::mutex mutex_;
  // The mutex guards all members below.
  // The keys are views of entry::subject.
  boost::unordered_flat_map<std::string_view, std::unique_ptr<entry>, key_hash> entries_;
  agenda<entry> agenda_;  // when to look whether a supply is still used
  alarm alarm_;           // stopped once the store closes or the context is gone
};

}  // namespace weir::detail
