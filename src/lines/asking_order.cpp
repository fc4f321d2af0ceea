#include "lines/asking_order.hpp"

#include <algorithm>
#include <utility>

namespace weir::detail {

void asking_order::note(member& m, std::vector<member*>& released) {
  const asking_line& line = *m.asking;
  const auto has_passed = [&] { return std::exchange(m.grants, line.grants()) != line.grants(); };
  const bool was_not_refused = std::exchange(m.passes, line.passes()) != line.passes();
  if (was_not_refused && !m.refused_by.empty()) leave(m, has_passed(), released);
  if (line.is_asking()) return;
  const bool has_asked = std::exchange(m.rounds, line.rounds()) != line.rounds();
  const bool passed = has_passed();
  if (!has_asked && line.is_refused() != m.refused_by.empty()) return;  // nothing new
  const std::string by = line.refused_by();
  if (!m.refused_by.empty() && m.refused_by != by) leave(m, passed, released);
  if (by.empty()) return;
  if (m.refused_by.empty()) {
    stand_behind(m, by);
  } else if (passed) {
    // It has had its share, and others wait.
    gates_.at(by).members.erase(m.place);
    stand_behind(m, by);
  }
  gate& g = gates_.at(by);
  if (has_asked) {
    g.width = line.store_spoke() ? 1 : most_at_once;
    member& first = *g.members.begin()->second;
    if (&first != &m && !first.asking->is_asking()) {
      first.asking->hear_of(line);
      if (!first.asking->is_held()) released.push_back(&first);
    }
  }
  settle(g, released);
}

void asking_order::stand_behind(member& m, const std::string& by) {
  m.refused_by = by;
  m.place = ++places_;
  m.asking->hold(true);
  gates_[by].members.emplace(m.place, &m);
}

void asking_order::leave(member& m, bool has_passed, std::vector<member*>& released) {
  const auto at = gates_.find(m.refused_by);
  gate& g = at->second;
  g.members.erase(m.place);
  m.refused_by.clear();
  m.asking->hold(false);
  if (!m.asking->store_spoke()) {
    g.width = most_at_once;  // they are all to know
  } else if (has_passed) {
    g.width = std::min(most_at_once, 2 * g.width);
  }
  if (g.members.empty()) {
    gates_.erase(at);
  } else {
    settle(g, released);
  }
}

void asking_order::settle(gate& g, std::vector<member*>& released) {
  std::size_t i = 0;
  for (auto it = g.members.begin(); it != g.members.end() && i < most_at_once; ++it, ++i) {
    member& m = *it->second;
    const bool may_ask = i < g.width;
    if (m.asking->is_asking() || m.asking->is_held() != may_ask) continue;
    m.asking->hold(!may_ask);
    if (may_ask) released.push_back(&m);
  }
}

}  // namespace weir::detail
