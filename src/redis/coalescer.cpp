#include "redis/coalescer.hpp"

#include <boost/container_hash/hash.hpp>
#include <functional>

namespace weir::redis {

using detail::check;
using detail::check_kind;

std::size_t coalescer::hash::operator()(const key_id& k) const noexcept {
  std::size_t seed = std::hash<std::string_view>{}(k.subject);
  boost::hash_combine(seed, k.limiter);
  return seed;
}

std::size_t coalescer::hash::operator()(const group_id& g) const noexcept {
  std::size_t seed = 0;
  boost::hash_combine(seed, g.limiter);
  boost::hash_combine(seed, g.cost);
  boost::hash_combine(seed, static_cast<int>(g.kind));
  return seed;
}

namespace {

call::purpose purpose_of(check_kind kind) {
  switch (kind) {
    case check_kind::record:
      return call::purpose::record;
    case check_kind::fetch:
      return call::purpose::fetch;
    case check_kind::reset:
      return call::purpose::reset;
  }
  return call::purpose::record;
}

bool merges(const check& c) {
  if (c.kind != check_kind::record) return true;
  return std::visit([](const auto& k) { return k.coalesces(); }, c.limiter->kernel);
}

}  // namespace

/// The open call of the check's group, unless that comes before `not_before`: the key's earlier checks go first.
std::size_t coalescer::call_for(const check& c, std::size_t not_before) {
  const auto [it, is_new] = open_.try_emplace({c.limiter.get(), c.cost, c.kind}, calls_.size());
  if (!is_new) {
    const std::size_t open = it->second;
    if (open >= not_before && calls_[open].keys.size() < max_keys_) return open;
    it->second = calls_.size();
  }
  call& opened = calls_.emplace_back();
  opened.what = purpose_of(c.kind);
  opened.cost = c.cost;
  opened.limiter = c.limiter.get();
  opened.kernel = c.limiter->kernel;
  return it->second;
}

void coalescer::add(check& c, bool alone) {
  std::size_t target = 0;
  if (alone) {
    target = call_for(c, 0);
  } else {
    const auto [it, is_new] = last_place_.try_emplace({c.limiter.get(), c.subject.view()}, place{});
    place& last = it->second;
    if (!is_new) {
      call& before = calls_[last.call];
      if (before.what == purpose_of(c.kind) && before.cost == c.cost && merges(c)) {
        call_key& key = before.keys[last.key];
        c.position = key.count++;
        key.checks.push_back(c);
        return;
      }
    }
    target = call_for(c, is_new ? 0 : last.call);
    last = {target, calls_[target].keys.size()};
  }
  call_key& key = calls_[target].keys.emplace_back();
  c.position = 0;
  key.count = 1;
  key.checks.push_back(c);
}

std::vector<call>& coalescer::pack(detail::check_list& line) {
  calls_.clear();
  last_place_.clear();
  open_.clear();
  const bool alone = !line.empty() && std::next(line.begin()) == line.end();
  while (!line.empty()) {
    check& c = line.front();
    line.pop_front();
    add(c, alone);
  }
  return calls_;
}

}  // namespace weir::redis
