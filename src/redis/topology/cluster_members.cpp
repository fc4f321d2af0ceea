#include "redis/topology/cluster_members.hpp"

namespace weir::redis {

cluster_members::cluster_members(const std::vector<redis_address>& seeds, make_node make)
    : make_(std::move(make)) {
  for (const redis_address& seed : seeds) all_[at(seed)].is_seed = true;
}

cluster_members::index cluster_members::at(const redis_address& address) {
  const auto key = std::pair(address.host, address.port);
  if (const auto found = by_address_.find(key); found != by_address_.end()) return found->second;
  index i = none;
  if (!vacant_.empty()) {
    i = vacant_.back();
    vacant_.pop_back();
  } else {
    if (all_.size() == most) return none;
    i = static_cast<index>(all_.size());
    all_.emplace_back();
  }
  all_[i].at = address;
  by_address_.emplace(key, i);
  return i;
}

cluster_node& cluster_members::link(index i) {
  member& m = all_[i];
  if (m.link == nullptr) m.link = make_(m.at, i);
  return *m.link;
}

std::vector<cluster_members::index> cluster_members::set_masters(
    const std::vector<redis_address>& masters) {
  for (member& m : all_) m.is_master = false;
  std::vector<index> found;
  for (const redis_address& address : masters) {
    found.push_back(at(address));
    if (found.back() != none) all_[found.back()].is_master = true;
  }
  return found;
}

void cluster_members::sweep() {
  for (index i = 0; i < all_.size(); ++i) {
    member& m = all_[i];
    if (m.is_master || m.pending > 0 || m.is_asked) continue;
    if (m.link != nullptr) {
      m.link->close();  // nothing is pending there
      m.link->stop_when_idle();
      m.link.reset();
      m.is_ready = false;
    }
    if (m.is_seed || by_address_.erase({m.at.host, m.at.port}) == 0) continue;
    m = member{};
    vacant_.push_back(i);
  }
}

std::vector<std::shared_ptr<cluster_node>> cluster_members::release() {
  std::vector<std::shared_ptr<cluster_node>> links;
  for (member& m : all_) {
    if (m.link != nullptr) links.push_back(std::move(m.link));
    m.is_ready = false;
  }
  return links;
}

}  // namespace weir::redis
