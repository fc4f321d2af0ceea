#include "lines/asking_order.hpp"

#include <algorithm>

namespace weir::detail {

void asking_order::note(member& m, std::vector<member*>& released) {
  const asking_line& line = *m.asking;
  const bool has_passed = line.passes() != m.passes;
  m.passes = line.passes();
  if (has_passed && !m.refused_by.empty()) leave(m, true, released);
  if (line.is_asking()) return;
  const bool has_asked = line.rounds() != m.rounds;
  m.rounds = line.rounds();
  if (!has_asked && line.is_refused() != m.refused_by.empty()) return;  // nothing new
  const std::string by = line.refused_by();
  if (!m.refused_by.empty() && m.refused_by != by) leave(m, has_asked, released);
  if (by.empty()) return;
  if (m.refused_by.empty()) enter(m, by);
  gate& g = gates_.at(by);
  if (has_asked) g.width = 1;
  settle(g, released);
}

void asking_order::enter(member& m, const std::string& by) {
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
  if (has_passed) g.width = std::min(most_at_once, 2 * g.width);
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
