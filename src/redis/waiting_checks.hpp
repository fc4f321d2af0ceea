#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "check/flight.hpp"
#include "link/admission.hpp"
#include "redis/script/coalescer.hpp"
#include "redis/slot_map.hpp"

namespace weir::redis {

/// Checks that a node of a Redis Cluster did not run.
struct redirected_checks {
  redirection why;
  detail::check_list checks;
};

/// The checks of a pipeline that wait to be sent: urgent ones (renewals and leaves), those that
/// came back, because the server did not run them, then all others, each in order.
///
/// In a Redis Cluster, what came back waits for the cluster's core: a later check of its key may be
/// sent to another node. Until proceed(), nothing may be written: unsent checks could overtake
/// checks that the core holds.
class waiting_checks {
 public:
  using check = detail::check;
  using check_list = detail::check_list;

  explicit waiting_checks(bool in_cluster) : in_cluster_(in_cluster) {}

  void add(check& c) {
    if (!in_cluster_) c.flight.order = next_order_++;
    c.flight.stage = detail::check_stage::waiting;
    (c.traits.is_urgent ? urgent_ : line_).push_back(c);
  }
  bool has_urgent() const noexcept { return !urgent_.empty(); }
  /// True if there are no others.
  bool is_empty() const noexcept { return line_.empty() && again_.empty(); }
  bool is_held() const noexcept { return held_; }

  /// The one way back for checks that the server did not run.
  void came_back(script_call& c, redirection&& why);
  /// Moves out what came back, for the cluster.
  std::vector<redirected_checks> take_redirected() { return std::exchange(redirected_, {}); }
  void proceed() noexcept { held_ = false; }

  /// The calls of the next write.
  call_list& pack(coalescer& into, const coalescer::quota& q) {
    line_.splice(line_.begin(), again_);
    return into.pack(urgent_, line_, q, passed_over_);
  }

  /// Checks that are not sent any more, because they would be answered too late.
  check_list& passed_over() noexcept { return passed_over_; }
  void pass_over(check& c) {
    c.line.unlink();
    passed_over_.push_back(c);
  }

  /// Calls f with each list of checks that may still be sent.
  template <class F>
  void each_line(F&& f) {
    for (check_list* list : {&urgent_, &again_, &line_}) f(*list);
  }
  /// As above, also with what came back and waits for the cluster.
  template <class F>
  void each_list(F&& f) {
    each_line(f);
    for (redirected_checks& r : redirected_) f(r.checks);
  }

 private:
  check_list urgent_;
  check_list again_;  // came back since the last write: sent first
  check_list line_;   // checks that came back earlier are at its front
  check_list passed_over_;
  std::vector<redirected_checks> redirected_;
  const bool in_cluster_;
  bool held_ = false;
  std::uint32_t next_order_ = 0;
};

}  // namespace weir::redis
