#include "support/redis_cluster.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>

namespace weir::test {
namespace {

constexpr std::size_t slots = 16'384;

std::string field(const std::string& text, const std::string& name) {
  const auto at = text.find(name + ":");
  if (at == std::string::npos) return {};
  const auto begin = at + name.size() + 1;
  return text.substr(begin, text.find_first_of("\r\n", begin) - begin);
}

}  // namespace

void redis_cluster::wait_until(const std::function<bool()>& holds, const char* what) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) {
      throw std::runtime_error(std::string("redis_cluster: still not: ") + what);
    }
    ::poll(nullptr, 0, 5);
  }
}

void redis_cluster::start(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> arguments = {"--cluster-enabled",
                                          "yes",
                                          "--cluster-config-file",
                                          "nodes.conf",
                                          "--cluster-node-timeout",
                                          "1500",
                                          "--cluster-allow-replica-migration",
                                          "no",
                                          "--repl-diskless-sync-delay",
                                          "0",
                                          "--repl-diskless-load",
                                          "swapdb"};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    nodes_.push_back(std::make_unique<redis_server>(
        redis_server_options{.cluster = true, .tls = tls_, .arguments = std::move(arguments)}));
    ids_.push_back(redis_client(*nodes_.back()).must("CLUSTER", "MYID").text);
  }
}

redis_cluster::redis_cluster(std::size_t masters, std::size_t replicas,
                             std::vector<std::string> arguments, redis_server_tls tls)
    : arguments_(std::move(arguments)), tls_(std::move(tls)) {
  start(masters + replicas);
  for (std::size_t i = 0; i < masters; ++i) {
    redis_client client(*nodes_[i]);
    const std::size_t first = slots * i / masters, last = slots * (i + 1) / masters - 1;
    // ADDSLOTSRANGE is younger than 6.2.
    auto add_slots = client.writer();
    add_slots.begin(2 + last - first + 1).arg("CLUSTER").arg("ADDSLOTS");
    for (std::size_t slot = first; slot <= last; ++slot) {
      add_slots.arg(static_cast<std::int64_t>(slot));
    }
    if (client.read().is_error()) throw std::runtime_error("redis_cluster: ADDSLOTS");
    client.must("CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1));
  }
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    redis_client(*nodes_[0]).must("CLUSTER", "MEET", "127.0.0.1", std::to_string(node(i).port()));
  }
  wait_until([&] { return agree(); }, "all nodes know each other");
  for (std::size_t i = 0; i < replicas; ++i) {
    redis_client(*nodes_[masters + i]).must("CLUSTER", "REPLICATE", ids_[i]);
  }
  for (std::size_t i = 0; i < replicas; ++i) replicate(i, masters + i);
  // A master takes a failover only from a replica that it knows as its own.
  const auto know_replicas = [&] {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& n) {
      const std::string all = redis_client(*n).must("CLUSTER", "NODES").text;
      std::size_t found = 0;
      for (std::size_t i = 0; i < replicas; ++i) found += all.find("slave " + ids_[i]) != all.npos;
      return found == replicas;
    });
  };
  wait_until([&] { return agree() && know_replicas(); }, "the cluster is up");
}

/// True if all nodes know all others, and find the cluster whole.
bool redis_cluster::agree() {
  for (const auto& n : nodes_) {
    if (n->pid() < 0) continue;
    const std::string info = redis_client(*n).must("CLUSTER", "INFO").text;
    if (field(info, "cluster_state") != "ok" ||
        field(info, "cluster_known_nodes") != std::to_string(nodes_.size())) {
      return false;
    }
  }
  return true;
}

std::string redis_cluster::url() const {
  std::string all = tls_.certificate_file.empty() ? "redis-cluster://" : "rediss-cluster://";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, nodes_.size()); ++i) {
    all += (i > 0 ? "," : "") + std::string("127.0.0.1:") + std::to_string(nodes_[i]->port());
  }
  return all;
}

std::vector<std::uint16_t> redis_cluster::slots_of(std::size_t i) {
  std::vector<std::uint16_t> found;
  std::istringstream lines(redis_client(*nodes_.at(i)).must("CLUSTER", "NODES").text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("myself") == std::string::npos || line.find("master") == std::string::npos) {
      continue;
    }
    std::istringstream words(line);
    std::string word;
    for (int skipped = 0; skipped < 8; ++skipped) words >> word;
    while (words >> word) {
      if (word.front() == '[') continue;
      const auto dash = word.find('-');
      const int first = std::stoi(word);
      const int last = dash == std::string::npos ? first : std::stoi(word.substr(dash + 1));
      for (int slot = first; slot <= last; ++slot) {
        found.push_back(static_cast<std::uint16_t>(slot));
      }
    }
  }
  return found;
}

std::size_t redis_cluster::owner_of(std::uint16_t slot) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->pid() < 0) continue;
    const auto its = slots_of(i);
    if (std::find(its.begin(), its.end(), slot) != its.end()) return i;
  }
  throw std::runtime_error("redis_cluster: no node has slot " + std::to_string(slot));
}

void redis_cluster::begin_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  const std::string s = std::to_string(slot);
  redis_client(node(to)).must("CLUSTER", "SETSLOT", s, "IMPORTING", ids_[from]);
  redis_client(node(from)).must("CLUSTER", "SETSLOT", s, "MIGRATING", ids_[to]);
}

std::size_t redis_cluster::move_keys(std::uint16_t slot, std::size_t from, std::size_t to,
                                     std::size_t most) {
  redis_client client(node(from));
  const reply keys = client.must("CLUSTER", "GETKEYSINSLOT", std::to_string(slot),
                                 std::to_string(most));
  for (const reply& key : keys.children) {
    client.must("MIGRATE", "127.0.0.1", std::to_string(node(to).port()), key.text, "0", "5000");
  }
  return keys.children.size();
}

void redis_cluster::end_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  while (move_keys(slot, from, to, 100) > 0) {
  }
  const std::string s = std::to_string(slot);
  redis_client(node(to)).must("CLUSTER", "SETSLOT", s, "NODE", ids_[to]);
  redis_client(node(from)).must("CLUSTER", "SETSLOT", s, "NODE", ids_[to]);
  settle();
}

void redis_cluster::move(std::uint16_t slot, std::size_t from, std::size_t to) {
  begin_move(slot, from, to);
  end_move(slot, from, to);
}

void redis_cluster::settle() {
  // What a node believes: the last epoch, and the owner of each range of slots.
  const auto view_of = [](redis_client client) {
    std::set<std::string> view;
    for (const reply& range : client.must("CLUSTER", "SLOTS").children) {
      view.insert(std::to_string(range.children.at(0).integer) + "-" +
                  std::to_string(range.children.at(1).integer) + " " +
                  range.children.at(2).children.at(2).text);
    }
    view.insert(field(client.must("CLUSTER", "INFO").text, "cluster_current_epoch"));
    return view;
  };
  wait_until(
      [&] {
        const auto first = view_of(redis_client(*nodes_[0]));
        return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& n) {
          return n->pid() < 0 || view_of(redis_client(*n)) == first;
        });
      },
      "all nodes know the owners of all slots");
}

std::size_t redis_cluster::add() {
  start(1);
  redis_client(node(0)).must("CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_.back()->port()));
  wait_until([&] { return agree(); }, "all nodes know the new one");
  return nodes_.size() - 1;
}

void redis_cluster::remove(std::size_t i) {
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other != i && nodes_[other]->pid() >= 0) {
      redis_client(node(other)).must("CLUSTER", "FORGET", ids_[i]);
    }
  }
  node(i).terminate();
}

void redis_cluster::replicate(std::size_t master, std::size_t replica) {
  wait_until(
      [&] {
        const std::string from = redis_client(node(master)).must("INFO", "replication").text;
        const std::string to = redis_client(node(replica)).must("INFO", "replication").text;
        return field(to, "master_link_status") == "up" &&
               field(from, "master_repl_offset") == field(to, "slave_repl_offset");
      },
      "the replica has everything");
}

}  // namespace weir::test
